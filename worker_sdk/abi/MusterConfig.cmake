# find_package(Muster [COMPONENTS nn gloo mpi nccl ...]): Muster::muster, and Muster::nn where this installation has the component
# nn; each other component is a backend that it has.
include("${CMAKE_CURRENT_LIST_DIR}/MusterTargets.cmake")
set(Muster_shm_FOUND TRUE)
foreach(component IN LISTS Muster_FIND_COMPONENTS)
  if(TARGET Muster::${component} OR EXISTS "${CMAKE_CURRENT_LIST_DIR}/../../muster/libmuster_${component}.so")
    set(Muster_${component}_FOUND TRUE)
  elseif(NOT Muster_${component}_FOUND AND Muster_FIND_REQUIRED_${component})
    set(Muster_FOUND FALSE)
    set(Muster_NOT_FOUND_MESSAGE "this installation has no backend ${component}: it was built where its library was not found")
  endif()
endforeach()

// SPDX-License-Identifier: Apache-2.0
// The steps of resolve_job(): each fills its part of the job, in the order in which resolve_job() calls them.
#pragma once

#include "launcher/job_spec/resolve_hosts.hpp"
#include "launcher/job_spec/resolve_peer.hpp"
#include "launcher/job_spec/resolve_rendezvous.hpp"

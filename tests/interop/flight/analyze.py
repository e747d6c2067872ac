# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own analyzer finds in dumps: group, sequence number, missing ranks, kind of mismatch, odd ranks, as JSON. Run by its Python."""
import json
import sys

from torch.distributed.flight_recorder.components.builder import build_db
from torch.distributed.flight_recorder.components.config_manager import JobConfig
from torch.distributed.flight_recorder.components.loader import read_dir


def main():
    args = JobConfig().parse_args([sys.argv[1], "--prefix", "rank"])
    details, version = read_dir(args)
    found = []
    for one in build_db(details, args, version).collectives:
        odd = one.mismatch_collectives or {}
        if one.pass_check and not one.missing_ranks:
            continue
        kinds = sorted({record.type_of_mismatch.state.name for record in odd.values()})
        found.append({"group": one.pg_desc, "sequence": one.collective_seq_id, "missing": sorted(one.missing_ranks or []), "kinds": kinds,
                      "odd": sorted(odd)})
    print(json.dumps(found))


main()

"""Measures gpu_dispatch beside its peers, and beside the limit: the same work with no dispatch at all.

    python -m benchmarks                       everything, about ten minutes on two cores
    python -m benchmarks --loads empty,records --systems gpu_dispatch,pool --rounds 3

    __main__ ─► rounds ─► child (a fresh process per measurement) ─► systems/<one adapter> ─► one Sample
                  └─► samples ─► bars, table (Markdown), plot (SVG), results.json

Where to look
- loads.py     what is measured: the items, the work on them, how many workers, what the number means
- bars.py      what we promise for each load, as data
- systems/     one adapter per system, as a user of that system would write it
- profile_stages.py   where the microseconds of one task go
"""

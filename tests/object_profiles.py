"""Profiles of the tests of the Python objects."""

import bentpipe as bp

DUMBBELL = "dumbbell:rate=10mbit,rtt=40ms"


def dumbbell(**options):
    return bp.Profile.preset(DUMBBELL, **{"duration": 4, "name": "dumbbell", **options})

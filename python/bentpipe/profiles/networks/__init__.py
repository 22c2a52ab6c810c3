"""Networks of a constellation: many paths over one Topology. `make` makes one, `show` describes it, `map` draws it."""

"""Order of the controllers by level of loss."""

from dataclasses import asdict

import pytest

from bentpipe.errors import UserError
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies.orders import Level, OrderEntry, by_level, share_lost
from bentpipe.studies.running import ORDER_COLUMNS, order_cells

PUBLISHED = OrderEntry(order=(("bbr",), ("cubic", "reno")), lost=0.01, source="figure 1")
EVEN = (1.0, 1.1, 0.9, 1.0, 1.05, 0.95)


def level(loss, lost, **goodput):
    return Level(loss, lost, {name: [value * each for each in EVEN] for name, value in goodput.items()})


LEVELS = [
    level("busy", 0.02, bbr=100.0, cubic=20.0, reno=10.0),
    level("idle", 0.001, bbr=100.0, cubic=150.0, reno=140.0),
    Level("huston", 0.012, {"bbr": EVEN, "cubic": EVEN[::-1], "reno": EVEN[::-1]}),
]


def test_the_published_order_stands_at_its_level():
    orders = by_level("LEO", "Mbit/s", PUBLISHED, LEVELS)
    assert [each.loss for each in orders] == ["idle", "", "huston", "busy"]
    assert [each.holds for each in orders] == [False, None, None, True]
    assert [each.order for each in orders] == [
        "cubic > reno > bbr",
        "bbr > cubic, reno",
        "bbr > cubic > reno",
        "bbr > cubic > reno",
    ]
    assert [each.published for each in orders] == ["", "figure 1", "", ""]
    assert orders[-1].values == {"bbr": 100.0, "cubic": 20.0, "reno": 10.0}


def test_a_published_order_without_a_level_comes_last():
    orders = by_level("LEO", "", PUBLISHED.replace(lost=None), LEVELS)
    assert [each.loss for each in orders] == ["idle", "huston", "busy", ""]
    assert order_cells(orders[-1]) == ["LEO", "→ published", "–", "bbr > cubic, reno", "", "figure 1"]


def test_rows_have_a_cell_for_each_column():
    orders = by_level("LEO", "Mbit/s", PUBLISHED, LEVELS)
    assert {len(order_cells(each)) for each in orders} == {len(ORDER_COLUMNS)}
    assert order_cells(orders[0]) == [
        "LEO",
        "idle",
        "0.1 %",
        "cubic > reno > bbr",
        "cubic 150, reno 140, bbr 100 Mbit/s",
        "no",
    ]
    assert asdict(orders[1])["lost"] == 0.01


def test_the_share_lost_is_that_of_the_direction():
    assert share_lost([preset_profile("dumbbell:loss=0.01", 10.0)], "up") == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"order": (("bbr",),)}, "order"),
        ({"lost": 2.0}, r"lost is 2\.0; expected a number from 0 to 1"),
        ({"source": ""}, "source"),
    ],
)
def test_an_invalid_published_order_is_refused_in_one_line(change, says):
    with pytest.raises(UserError, match=says) as error:
        PUBLISHED.replace(**change)
    assert len(str(error.value).splitlines()) == 1

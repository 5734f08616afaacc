"""The page on the architecture names the files that a message passes in a coordinator."""

import time

import numpy as np
import pandas as pd
import pytest
from coordinators import MEANS, SECRET, Caller, messages

from architecture_page import HELPERS, MESSAGE, MESSAGE_HELPERS, MORE, ROW, followed
from kfed.site import cluster_file


def summaries_of_tables(n_devices):
    """What devices with tables send who know no number: fine summaries, with the spread of each column."""
    rng = np.random.default_rng(0)
    for i in range(n_devices):
        points = MEANS[rng.integers(len(MEANS), size=120)] + rng.normal(size=(120, 2))
        table = pd.DataFrame({"age": points[:, 0], "dose": points[:, 1], "ward": rng.choice(["a", "b"], size=120)})
        yield cluster_file(table, None, f"device-{i}").to_message()


SUMMARIES = {"n_features": 3, "feature_names": ["age", "dose", "ward"], "by_column": True, "n_clusters": "auto"}


def walked(run_app, folder, sent, terms):
    """The files of kfed in which a function is called while devices send messages, one of them late, and ask."""
    *early, late = sent
    with followed() as found:
        caller = Caller(run_app(str(folder / "kfed.db")))
        caller.create(quorum=len(early), **terms)
        found.clear()
        for one in early:
            assert caller.put(one).status_code == 201
        wait_for_answer(caller, early[0])
        assert caller.put(late).status_code == 201
        wait_for_answer(caller, late)
        return set(found)


def wait_for_answer(caller, sent):
    path, secret = f"{caller.path(sent.device_id)}/identity", {"Kfed-Device-Secret": SECRET}
    until = time.monotonic() + 20
    while caller.http.get(path, headers=secret).status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("sent", "terms", "server"),
    [(messages(5), {}, set()), (list(summaries_of_tables(5)), SUMMARIES, ROW | MORE)],
    ids=["with-k", "summaries"],
)
def test_a_message_takes_the_way_that_the_page_describes_and_no_other(run_app, tmp_path, sent, terms, server):
    found = walked(run_app, tmp_path, sent, terms)
    assert (MESSAGE | MESSAGE_HELPERS) - found == set()
    rooms = ("site/", "device/", "server/", "wire/", "theory/", "coordinator/", "cli/", "_base/")
    known = MESSAGE | MESSAGE_HELPERS | HELPERS | server
    assert {name for name in found if name.startswith(rooms) and name not in known} == set()

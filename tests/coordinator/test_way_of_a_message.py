"""The page on the architecture names the files that a message passes in a coordinator."""

import time

from coordinators import SECRET, Caller, messages

from architecture_page import HELPERS, MESSAGE, MESSAGE_HELPERS, followed


def walked(run_app, folder):
    """The files of kfed in which a function is called while devices send messages, one of them late, and ask."""
    *early, late = messages(5)
    with followed() as found:
        caller = Caller(run_app(str(folder / "kfed.db")))
        caller.create(quorum=len(early))
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


def test_a_message_takes_the_way_that_the_page_describes_and_no_other(run_app, tmp_path):
    found = walked(run_app, tmp_path)
    assert (MESSAGE | MESSAGE_HELPERS) - found == set()
    rooms = ("site/", "device/", "server/", "wire/", "coordinator/", "cli/", "_base/")
    known = MESSAGE | MESSAGE_HELPERS | HELPERS
    assert {name for name in found if name.startswith(rooms) and name not in known} == set()

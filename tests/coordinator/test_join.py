"""`kfed join`: the whole life of a device in one command."""

import io
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from coordinators import MEANS, Caller
from joining import folder, join_arguments, labels_of, url  # noqa: F401

import kfed
from consoles import SITES, exit_code, run
from consoles import said as in_console
from kfed.coordinator.client import StillGathering


def test_three_sites_join_and_wait_a_fourth_comes_late_and_all_agree(url):
    with ThreadPoolExecutor() as terminals:
        waiting = [
            terminals.submit(exit_code, *join_arguments(url, site, "-o", f"{site}-labels.csv"))
            for site in ("north", "south")
        ]
        run(*join_arguments(url, "east", "--no-wait"))
    assert [one.result() for one in waiting] == [0, 0]
    run(*join_arguments(url, "west", "-o", "west-labels.csv"))
    run("label", "east.local", "--clusters", "east.ticket", "-o", "east-labels.csv")
    found = {}
    for site, groups in SITES.items():
        labels = labels_of(f"{site}-labels.csv")
        for position, label in enumerate(labels.values()):
            found.setdefault(groups[position // 20], set()).add(label)
    assert all(len(labels) == 1 for labels in found.values())
    assert len(set.union(*found.values())) == 4


def test_a_site_runs_the_same_command_again_without_a_second_effect_and_leaves_for_good(url, monkeypatch):
    again = join_arguments(url, "north", "--no-wait")
    for _ in range(2):
        run(*again)
    shown = json.loads(run("federation", "show", "sites", "--url", url, "--json"))
    assert shown["n_devices"] == 1
    assert stat.S_IMODE(Path("north.ticket").stat().st_mode) == 0o600
    error = run("label", "north.local", "--clusters", "north.ticket", code=1)
    assert "1 device joined (quorum 3); the clusters are not ready yet" in error
    changed = [*join_arguments(url, "north", "--no-wait", "--force"), "--seed", 5, "--min-cluster-size", 20]
    Path("north.csv").write_text(Path("south.csv").read_text())
    assert "replace" in run(*changed, code=1)
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        refused = run(*changed, "--replace", code=1)
        assert "can subtract it from the new one" in refused
        assert "nothing was sent; pass --yes" in refused
    run(*changed, "--replace", "--yes")
    run("leave", "north.ticket")
    assert json.loads(run("federation", "show", "sites", "--url", url, "--json"))["n_devices"] == 0


def test_without_a_quorum_a_site_hears_who_makes_the_clusters(url):
    run("federation", "create", "open", "--features", "x,y", "-k", 4, "--url", url)
    own = ["--federation", "open", "--token-file", "open.token", "--data", "north.csv", "-k", 2, "--id-column", "row"]
    said = " ".join(run("join", url, *own, "--no-wait").split())
    assert "the administrator has to make them (kfed federation aggregate NAME)" in said
    assert "administrator" not in StillGathering(1, 3, None, "", 1.0).in_words
    assert "administrator" not in StillGathering(1, None, 2e9, "", 1.0).in_words


def test_errors_of_a_newcomer_say_what_to_do(url):
    missing = ["join", url, "--federation", "sites", "--data", "north.csv", "-k", 2]
    assert "--token-file" in run(*missing, "-o", "labels.csv", code=1)
    assert "--no-wait" in run(*missing, "--token-file", "sites.token", code=1)
    Path("wrong.token").write_text("not-the-token-of-anything")
    wrong = [*missing, "--token-file", "wrong.token", "--id-column", "row", "-o", "labels.csv"]
    assert "pass its join token" in run(*wrong, code=1)
    far = [*join_arguments("http://coordinator.example", "north", "-o", "labels.csv")]
    assert "unencrypted" in run(*far, code=1)
    away = [*join_arguments("http://127.0.0.1:9", "north", "-o", "labels.csv"), "--patience", 0.5]
    assert "no usable response" in run(*away, code=1)
    assert not Path("labels.csv").exists()


def test_a_federation_that_was_mistyped_does_not_spoil_the_next_join(url):
    wrong = [*join_arguments(url, "north", "--no-wait"), "--federation", "cites"]
    assert "no federation 'cites'" in run(*wrong, code=1)
    assert not list(Path().glob("north.[tl]*"))
    run(*join_arguments(url, "north", "--no-wait"))
    kept = Path("north.ticket").read_bytes()
    assert "no federation 'cites'" in run(*wrong, code=1)
    assert "no federation 'cites'" in run(*wrong, "--force", code=1)
    assert Path("north.ticket").read_bytes() == kept
    run("leave", "north.ticket")


def test_a_ticket_of_another_federation_is_given_up_with_force(url):
    run("federation", "create", "other", "--features", "x,y", "-k", 4, "--url", url)
    run(*join_arguments(url, "north", "--no-wait"))
    other = [*join_arguments(url, "north", "--no-wait"), "--federation", "other", "--token-file", "other.token"]
    assert "give another file with --ticket" in run(*other, code=1)
    run(*other, "--force")
    assert json.loads(run("federation", "show", "other", "--url", url, "--json"))["n_devices"] == 1


def test_labels_can_be_read_by_their_owner_only(url):
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "labels.csv"))
    run("label", "north.local", "--clusters", "north.ticket", "-o", "north-labels.csv")
    for path in ("labels.csv", "north-labels.csv"):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_a_name_with_a_space_and_zero_clusters_are_refused_in_words(url):
    create = ["federation", "create", "--features", "x,y", "--url", url]
    assert "name must be 1 to 63 letters, digits" in run(*create, "my clinics", code=1)
    for wrong in (0, "many"):
        said = " ".join(run(*create, "zero", "-k", wrong, code=2).replace("│", " ").split())
        assert f"must be a whole number of at least 1, or auto; got '{wrong}'" in said


def test_the_command_for_later_can_be_pasted(url):
    Path("my site.csv").write_text(Path("north.csv").read_text())
    arguments = join_arguments(url, "north", "--no-wait")
    arguments[arguments.index("--data") + 1] = "my site.csv"
    assert "kfed label 'my site.local' --clusters 'my site.ticket'" in run(*arguments)


def test_a_private_site_sends_the_same_release_again_and_pays_for_it_once(url):
    rows = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 1000, axis=0)
    np.savetxt("north.csv", np.column_stack([np.arange(2000), rows]), delimiter=",", header="row,x,y", comments="")
    private = ["--no-wait", "--epsilon", "2", "--radius", "8", "--budget", "2"]
    mistyped = ["cites" if argument == "sites" else argument for argument in join_arguments(url, "north", *private)]
    run(*mistyped, code=1)
    for _ in range(2):
        run(*join_arguments(url, "north", *private))
    assert len(Path("north.csv.ledger").read_text().splitlines()) == 1
    shown = json.loads(run("federation", "show", "sites", "--url", url, "--json"))
    assert shown["n_devices"] == 1


def test_a_site_is_told_when_labels_depend_on_centers_that_are_not_shown(run_server, folder):
    """Its labels are not those that it would get of the aggregation, which shows all centers."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "x,y", "-k", 3, "--quorum", 2, "--url", url)
    by_row = ["--id-column", "row", "-o", "labels.csv", "--json"]
    run(*join_cloud(url, "south", "--id-column", "row", "--no-wait"))
    told = json.loads(run(*join_cloud(url, "north", *by_row)))["warnings"]
    hidden = [notice["text"] for notice in told if notice["code"] == "hidden centers"]
    assert len(hidden) == 1
    assert hidden[0].startswith("3 of 3 cluster centers are hidden, because fewer than 3 devices contributed to each")
    code, _, err = in_console("label", "south.local", "--clusters", "south.ticket", "-o", "south-labels.csv")
    assert code == 0
    assert "warning: 3 of 3 cluster centers are hidden, because too few devices contributed to each" in err
    run("federation", "create", "open", "--columns", "x,y", "-k", 3, "--min-devices-shown", 1, "--url", url)
    shown = [argument.replace("sites", "open") for argument in join_cloud(url, "north", "--ticket", "open.ticket")]
    run(*shown, "--id-column", "row", "--no-wait")
    run("federation", "aggregate", "open", "-k", 2, "--url", url)
    told = json.loads(run(*shown, *by_row, "--force"))["warnings"]
    assert "hidden centers" not in [notice["code"] for notice in told]


def one_cloud(run_server, *more):
    """The address of a coordinator that waits for three sites, whose rows are of one cloud."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "x,y", "--quorum", 3, *more, "--url", url)
    rng = np.random.default_rng(0)
    for site in ("north", "south", "east"):
        rows = "".join(f"{x:.4f},{y:.4f}\n" for x, y in rng.normal(size=(200, 2)))
        Path(f"{site}.csv").write_text(f"x,y\n{rows}")
    return url


def join_cloud(url, site, *more):
    return ["join", url, "--federation", "sites", "--token-file", "sites.token", "--data", f"{site}.csv", *more]


@pytest.mark.slow
def test_sites_of_one_cloud_get_clusters_without_a_number_and_hear_that_none_stands_out(
    run_server, folder, few_compared
):
    url = one_cloud(run_server)
    for site in ("north", "south"):
        run(*join_cloud(url, site, "--no-wait"))
    said = json.loads(run(*join_cloud(url, "east", "-o", "labels.csv", "--timeout", 60, "--json")))
    assert "unsure k" in [notice["code"] for notice in said["warnings"]]
    assert len(Path("labels.csv").read_text().splitlines()) == 201
    assert (said["n_clusters"], said["answered_by"]) == (2, "pooled")
    assert said["found"] == "no number of clusters stands out (2 at best)"
    code, out, err = in_console(*join_cloud(url, "east", "-o", "labels.csv", "--force"))
    assert code == 0
    assert "found 2 clusters (rule: pooled)" in " ".join(out.split())
    assert f"{out} {err}".count("no number of clusters stands out") == 1
    shown = run("federation", "show", "sites", "--url", url)
    assert "the best number of clusters, rule: default (used: pooled)" in shown


@pytest.mark.slow
def test_where_only_a_clear_number_is_taken_a_site_says_once_who_has_to_choose_it_and_waits_as_long_as_asked(
    run_server, folder, few_compared
):
    url = one_cloud(run_server, "-k", "auto")
    for site in ("north", "south", "east"):
        run(*join_cloud(url, site, "--no-wait"))
    told = "the administrator has to choose a number: kfed federation aggregate sites -k N"
    with httpx.Client(base_url=url) as administrator:
        Caller(administrator).wait_for(lambda shown: told in shown["remark"], "sites", seconds=60)
    said = " ".join(run(*join_cloud(url, "east", "-o", "labels.csv", "--timeout", 1), code=1).split())
    waiting = "sent; 3 devices joined (quorum 3); the clusters are not ready yet; with 3 devices: no number of"
    assert said.count(waiting) == 1
    assert told in said
    assert "run the same command again later" in said


def test_a_site_that_has_left_or_whose_federation_is_gone_is_told_why_it_gets_no_clusters(url):
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "east-labels.csv"))
    ask = ["label", "north.local", "--clusters", "north.ticket", "-o", "labels.csv"]
    run(*ask)
    run("leave", "north.ticket")
    reason = "federation 'sites' does not know 'north' by this ticket: the site has left, was removed"
    assert reason in run(*ask, "--force", code=1)
    run("federation", "delete", "sites", "--yes", "--url", url)
    assert "or the federation was deleted" in run("label", "south.local", "--clusters", "south.ticket", code=1)


def test_new_rows_are_labelled_by_a_ticket_unless_all_centers_are_hidden(url):
    means = [f"{x!r},{y!r}" for x, y in MEANS.tolist()]
    Path("new.csv").write_text("\n".join(["x,y", *means, ""]))
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"))
    run(*join_arguments(url, "east", "-o", "east-labels.csv"))
    assert "the centers of all clusters are hidden" in run("label", "new.csv", "--clusters", "north.ticket", code=1)
    terms = ["--features", "x,y", "-k", 4, "--quorum", 3, "--min-devices-shown", 2]
    run("federation", "create", "some", *terms, "--url", url)
    own = ["--federation", "some", "--token-file", "some.token", "--force"]
    for site in ("north", "south"):
        run(*join_arguments(url, site, "--no-wait"), *own)
    run(*join_arguments(url, "east", "-o", "east-labels.csv"), *own)
    code, labels, told = in_console("label", "new.csv", "--clusters", "north.ticket")
    assert code == 0
    assert "2 of 4 cluster centers are hidden, because too few devices contributed to each; new rows get the" in told
    found = [int(line.split(",")[1]) for line in labels.splitlines()[1:]]
    run("federation", "download", "some", "--aggregation", "some.kfed", "--url", url)
    all_shown = kfed.Aggregation.load("some.kfed").predict(MEANS)
    assert found[1:3] == all_shown[1:3].tolist()  # south and east or north have these, too

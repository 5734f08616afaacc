"""The server of a platform: it reads the replies of sites, aggregates the messages, and reports the result.

Replies are not trusted, and a site that fails takes none of the others with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kfed.adapters._platform_words import ERROR, LABELLED, MESSAGE, SITE, WARNINGS, read_from_text, to_text
from kfed.errors import EngineError, FeatureMismatchError, KFedError
from kfed.server import DEFAULT, Aggregation, aggregate, late_advice
from kfed.wire import DeviceMessage, Identity, MessageBatch, Notice

MAX_TEXT = 500


@dataclass
class Replies:
    """What sites replied.

    Attributes
    ----------
    messages : dict of str to DeviceMessage
    failed : dict of str to str
        Sites that sent none that can be used, and why.
    warnings : dict of str to list of str
        Codes of what a site should look at in its table.
    labelled : list of str
        Sites that labelled their rows.
    """

    messages: dict[str, DeviceMessage] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)
    labelled: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, replies: Iterable[Any], asked: Collection[str]) -> Replies:
        """Sort replies by what they say; one that does not name a site that was asked is left out."""
        found = cls()
        for reply in replies:
            site = reply.get(SITE) if isinstance(reply, Mapping) else None
            if isinstance(site, str) and site in asked:
                found._take(site, reply)
        found.messages = {site: message for site, message in found.messages.items() if site not in found.failed}
        return found

    def _take(self, site: str, reply: Mapping[str, Any]) -> None:
        if ERROR in reply:
            self.failed[site] = str(reply[ERROR])[:MAX_TEXT]
        elif reply.get(LABELLED) is True:
            self.labelled.append(site)
        else:
            self._take_message(site, reply)

    def _take_message(self, site: str, reply: Mapping[str, Any]) -> None:
        try:
            message = read_from_text(DeviceMessage, reply.get(MESSAGE))
        except KFedError as error:
            self.failed[site] = f"its message cannot be used: {error}"[:MAX_TEXT]
            return
        if message.device_id != site:
            self.failed[site] = f"its message is that of {message.device_id!r}"[:MAX_TEXT]
        elif self.messages.setdefault(site, message) != message:
            self.failed[site] = "two different messages came under its name"
        else:
            codes = reply.get(WARNINGS)
            self.warnings[site] = [str(code)[:MAX_TEXT] for code in codes] if isinstance(codes, list) else []

    def missing(self, asked: Iterable[str], reasons: Mapping[str, str]) -> None:
        """Note that sites have not replied, and why, as far as the platform knows."""
        for site in asked:
            if site not in self.messages and site not in self.labelled:
                self.failed.setdefault(site, reasons.get(site, "it has not replied; it can be answered later"))


@dataclass(frozen=True)
class PlatformRound:
    """The clusters of a round, and the sites that are to be answered."""

    result: Aggregation
    replies: Replies
    late: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()

    @classmethod
    def aggregated(
        cls,
        replies: Replies,
        n_clusters: int | Literal["auto"] | None = None,
        rule: str = DEFAULT,
        min_devices: int | None = None,
    ) -> PlatformRound:
        """Aggregate the messages of all sites that have the columns that most have."""
        if not replies.messages:
            why = "; ".join(f"{site}: {reason}" for site, reason in sorted(replies.failed.items()))
            raise EngineError(f"no site sent a message that can be used ({why or 'none was asked'})")
        result = aggregate(_of_most(replies), n_clusters, rule=rule, min_devices=min_devices, n_jobs=1)
        return cls(result, replies, notices=tuple(result.notices))

    @classmethod
    def answered(cls, replies: Replies, clusters: Aggregation) -> PlatformRound:
        """Answer messages from existing clusters, which stay as they are."""
        late, notices = [], []
        for site, message in list(replies.messages.items()):
            try:
                clusters.answer(message)
            except KFedError as error:
                replies.failed[site] = str(error)[:MAX_TEXT]
                del replies.messages[site]
                continue
            if site not in clusters:
                late.append(site)
                notices += late_advice(clusters, clusters.messages, message)
        return cls(clusters, replies, tuple(late), tuple(notices))

    def answers(self) -> dict[str, tuple[Identity, str]]:
        """The answer to each site, and the digest of the message that it answers."""
        messages = self.replies.messages.items()
        return {site: (self.result.answer(message), message.digest().hex()) for site, message in messages}

    def facts(self, labels: Replies | None = None) -> dict[str, Any]:
        """The result of the round, as JSON; `labels` is what sites replied when they were answered."""
        labels = Replies() if labels is None else labels
        return {
            "clusters": to_text(self.result),
            "n_clusters": self.result.n_clusters,
            "cluster_sizes": self.result.cluster_sizes.tolist(),
            "rule": self.result.rule,
            "k_choice": None if self.result.k_choice is None else str(self.result.k_choice),
            "warnings": [notice._asdict() for notice in self.notices],
            "sites": {site: self.replies.warnings.get(site, []) for site in sorted(self.replies.messages)},
            "failed": dict(sorted(self.replies.failed.items())),
            "late": sorted(self.late),
            "labelled": sorted(labels.labelled),
            "unlabelled": dict(sorted(labels.failed.items())),
        }


def _of_most(replies: Replies) -> MessageBatch:
    """Stack the messages; if columns differ, those that go with the columns of most sites, and the others fail."""
    try:
        return MessageBatch.of(replies.messages.values())
    except FeatureMismatchError:
        columns = {site: _columns(message) for site, message in replies.messages.items()}
        how_many = Counter(columns.values())
    kept: list[DeviceMessage] = []
    for site in sorted(replies.messages, key=lambda site: (-how_many[columns[site]], site)):
        try:
            MessageBatch.of([*kept, replies.messages[site]])
        except FeatureMismatchError as error:
            replies.failed[site] = str(error)[:MAX_TEXT]
            del replies.messages[site]
        else:
            kept.append(replies.messages[site])
    return MessageBatch.of(kept)


def _columns(message: DeviceMessage) -> frozenset[str]:
    columns = message.schema.columns
    return frozenset(message.feature_names or () if columns is None else [column.name for column in columns])

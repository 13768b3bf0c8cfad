"""Broken revisions."""

from __future__ import annotations

from clawbot.store import outbox, revisions
from tests.contracts.broken.breaking import Break, afterwards, nothing, replacing

STANDS = "UPDATE outbox SET state = 'sent', settled_ms = 1 WHERE has_posted"
FRESH = "UPDATE outbox SET state = 'pending', settled_ms = NULL WHERE holder IS NULL"

REVISION_BREAKS = (
    Break(
        clause="test_what_was_sent_goes_out_again_to_be_changed",
        fault="what was sent stays as it is",
        apply=afterwards(revisions, "revise", STANDS),
    ),
    Break(
        clause="test_what_is_on_its_way_is_changed_once_it_is_there",
        fault="what is on its way is not looked at again",
        apply=afterwards(outbox, "settle", STANDS),
    ),
    Break(
        clause="test_what_was_not_sent_yet_is_sent_as_it_is_now",
        fault="a reply cannot be changed before it is sent",
        apply=replacing(revisions, "revise", nothing),
    ),
    Break(
        clause="test_what_cannot_be_changed_stays_as_it_was_sent",
        fault="all that is revised is sent again",
        apply=afterwards(revisions, "revise", FRESH),
    ),
    Break(
        clause="test_what_was_given_up_is_not_tried_again",
        fault="what was given up comes back",
        apply=afterwards(revisions, "revise", FRESH),
    ),
    Break(
        clause="test_a_choice_that_was_made_is_offered_nowhere_in_its_chat",
        fault="choices stay",
        apply=replacing(revisions, "revise", nothing),
    ),
    Break(
        clause="test_a_decided_question_says_so_and_offers_nothing",
        fault="the question stays as it was asked",
        apply=replacing(revisions, "revise", nothing),
    ),
)

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.informers.store import Store
from scaler.kube.metadata import version_of
from tests.informers.records import Record, a_record

Change = tuple[Record | None, Record | None]


def a_store(*scopes: str | None) -> tuple[Store[Record], list[Change]]:
    changes: list[Change] = []
    store: Store[Record] = Store(lambda old, new: changes.append((old, new)))
    for scope in scopes or (None,):
        store.add_scope(scope)
    return store, changes


def test_every_effective_change_is_reported_with_what_was_there_before() -> None:
    store, changes = a_store()
    first = a_record("a", 1)
    second = a_record("a", 2)
    store.apply(first)
    store.apply(second)
    store.remove("ns", "a", second.uid)
    assert changes == [(None, first), (first, second), (second, None)]


def test_what_is_known_already_or_older_changes_nothing() -> None:
    store, changes = a_store()
    store.apply(a_record("a", 10))
    store.apply(a_record("a", 10))
    store.apply(a_record("a", 9))
    assert (len(changes), len(store)) == (1, 1)


def test_the_last_words_of_a_deleted_object_do_not_touch_its_successor() -> None:
    store, _ = a_store()
    store.apply(a_record("a", 10, uid="new"))
    store.apply(a_record("a", 9, uid="old"))
    store.remove("ns", "a", "old")
    assert [record.uid for record in store.values()] == ["new"]


def test_a_successor_replaces_an_object_whose_deletion_was_not_seen() -> None:
    store, changes = a_store()
    old = a_record("a", 5, uid="old")
    new = a_record("a", 9, uid="new")
    store.apply(old)
    store.apply(new)
    assert changes[-1] == (old, new)


def test_what_was_found_absent_does_not_come_back_by_what_is_told_of_it_late() -> None:
    store, changes = a_store()
    seen = a_record("a", 5)
    late = a_record("a", 8)
    store.apply(seen)
    store.note_absent("ns", "a", 9)
    store.apply(late)
    assert (changes[-1], len(store)) == ((seen, None), 0)


def test_what_exists_since_it_was_found_absent_is_known() -> None:
    store, _ = a_store()
    new = a_record("a", 10, uid="new")
    store.note_absent("ns", "a", 9)
    store.apply(new)
    store.note_absent("ns", "a", 9)
    assert list(store.values()) == [new]


def test_once_everything_is_seen_up_to_then_nothing_is_remembered_of_what_was_absent() -> None:
    store, _ = a_store("ns")
    store.note_absent("ns", "a", 9)
    store.advance("ns", 9)
    store.note_absent("ns", "b", 9)
    assert store._absent == {}


def test_a_complete_list_deletes_within_its_namespace_only() -> None:
    store, _ = a_store("x", "y")
    for namespace in "xy":
        for name in "ab":
            store.apply(a_record(name, 1, namespace=namespace))
    store.retain("x", {("x", "a")})
    assert sorted((r.namespace, r.name) for r in store.values()) == [
        ("x", "a"),
        ("y", "a"),
        ("y", "b"),
    ]


def test_progress_is_that_of_the_scope_furthest_behind() -> None:
    store, _ = a_store("x", "y")
    store.advance("x", 10)
    before = store.version
    store.advance("y", 7)
    assert (before, store.version, store.seen("x")) == (0, 7, 10)


def test_listeners_hear_of_changes_by_name_and_of_progress() -> None:
    store, _ = a_store()
    heard: list[tuple[str, str] | None] = []
    store.listen(heard.append)
    store.apply(a_record("a", 3))
    store.advance(None, 3)
    store.advance(None, 2)
    assert heard == [("ns", "a"), None]


def test_a_resource_version_that_is_no_number_is_zero() -> None:
    assert [version_of(v) for v in ("12", "", "abc", "-3")] == [12, 0, 0, 0]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.sampled_from(["u1", "u2"]))))
def test_versions_of_a_name_never_go_back(applied: list[tuple[str, int, str]]) -> None:
    store, changes = a_store()
    for name, version, uid in applied:
        store.apply(a_record(name, version, uid=uid))
    for old, new in changes:
        assert new is not None
        assert old is None or int(old.resource_version) < int(new.resource_version)

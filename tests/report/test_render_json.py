"""What does a `--json` document hold?"""

from __future__ import annotations

import json

from report_samples import COMMIT, PLAN, T0, failed_boot, kimi_boot

from kboot.errors import UsageError
from kboot.report.document import dumps, error_document
from kboot.report.plan_json import plan_document
from kboot.report.render_json import boot_document, timeline_document
from kboot.report.timeline import make_timeline


def test_every_document_has_schema_kind_and_valid_json() -> None:
    """Each document can be read back and says what it is."""
    documents = {
        "plan": plan_document(PLAN),
        "boot": boot_document(kimi_boot()),
        "timeline": timeline_document(make_timeline(failed_boot())),
        "error": error_document(UsageError("usage", "no such option")),
    }

    for kind, doc in documents.items():
        back = json.loads(dumps(doc))
        assert (1, kind) == (back["schema"], back["kind"])
        assert doc == back


def test_a_plan_lists_every_action_with_type_title_and_reason() -> None:
    """111 fetches are 111 actions for a program, and the listing is said once."""
    phases = {p["name"]: p for p in plan_document(PLAN)["phases"]}

    assert 111 == len(phases["fetch"]["actions"])
    assert ("fetch-file", "fetch model-00001-of-00111.safetensors", "9.00 GB of it are here") == tuple(
        phases["fetch"]["actions"][0][k] for k in ("type", "title", "reason")
    )
    assert "listing" not in phases["publish"]["actions"][0]
    assert (COMMIT, 111) == (plan_document(PLAN)["checkpoint"]["commit"], plan_document(PLAN)["checkpoint"]["files"])


def test_a_timeline_marks_the_critical_spans_and_compares() -> None:
    """Programs get the critical path, the longest steps and the regression as data."""
    earlier = [kimi_boot(at=T0 - 1e5 * n) for n in (1, 2)]
    doc = timeline_document(make_timeline(kimi_boot(tune_s=912.0), earlier))

    assert {"tune", "cache"} == {s["name"] for s in doc["spans"] if not s["critical"]}
    assert "fetch" == doc["longest"][0]["name"]
    assert "autotune" == doc["comparison"]["regression"]["name"]
    assert 2 == doc["comparison"]["boots"]


def test_an_error_keeps_its_code_status_and_hint() -> None:
    """The document of an error carries all that the text does."""
    doc = boot_document(failed_boot())["error"]

    assert ("shard-hash-mismatch", 12) == (doc["code"], doc["status"])
    assert doc["hint"].startswith("take the mirror out")

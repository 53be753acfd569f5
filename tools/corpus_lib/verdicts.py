"""What the verdict is worth: its grades beside the eye's, and whether a made case that fails is said to; measures nothing."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
GRADES = ("good", "usable", "poor")
# A made case fell in a figure where it is worse than the photo it was made of by more than this; photos of one person in even light
# differ by less.
FALLS: tuple[tuple[str, str, float, int], ...] = (  # key, heading, how much, decimals; negative: lower is worse
    ("landmark_error_iod_pct", "lm %", 0.3, 2),
    ("silhouette_error_mm", "sil mm", 1.5, 2),
    ("silhouette_iou", "IoU", -0.03, 3),
    ("photo_psnr_db", "PSNR", -3.0, 1),
    ("identity_front", "id 0", 0.1, 3),
    ("identity_30", "id 30", 0.1, 3),
    ("identity_neutral", "id n", 0.1, 3),
)


def grade(row: Row) -> str:
    """The verdict's grade, "" without one."""
    quality = row.get("quality")
    return str(quality.get("grade", "")) if isinstance(quality, dict) else ""


def against_the_eye(rows: list[Row], eye: dict[str, str]) -> dict[str, Any]:
    """{counts: by the eye's grade, then the verdict's; false_alarms: ids good or usable by eye and called poor; missed: ids poor by
    eye and called good}, of the rows that have both."""
    both = [(row["id"], eye[row["id"]], grade(row)) for row in rows if row["id"] in eye and grade(row)]
    return {
        "counts": {seen: {said: sum(pair[1:] == (seen, said) for pair in both) for said in GRADES} for seen in GRADES},
        "false_alarms": [id_ for id_, seen, said in both if seen != "poor" and said == "poor"],
        "missed": [id_ for id_, seen, said in both if seen == "poor" and said == "good"],
    }


def fell(row: Row, base: Row) -> list[str]:
    """The figures in which a made case is worse than its base, as text before → after."""
    found = []
    for key, heading, much, decimals in FALLS:
        before, after = base.get(key), row.get(key)
        if isinstance(before, (int, float)) and isinstance(after, (int, float)) and (after - before) / much > 1:
            found.append(f"{heading} {before:.{decimals}f} → {after:.{decimals}f}")
    return found


def said(row: Row, base: Row) -> list[str]:
    """Sentences about a made case that its base did not get: the refusal, the verdict's cause, warnings."""
    if row.get("error") is not None:
        return [row["error"]]
    sentences = []
    for each in (base, row):
        line = (each.get("quality") or {}).get("line", "") if grade(each) != "good" else ""
        sentences.append([line] * bool(line) + [note for note in each.get("warnings") or [] if note != line])
    return [sentence for sentence in sentences[1] if sentence not in sentences[0]]


def made_cases(rows: list[Row]) -> list[dict[str, Any]]:
    """Of each made case whose base is among the rows: {id, before, after: grades, fell, said, silent: it fell and nothing says so}."""
    by_id = {row["id"]: row for row in rows}
    cases = []
    for row in rows:
        base = by_id.get(row["id"].split("+")[0])
        if row.get("made") is None or base is None or base.get("error") is not None:
            continue
        lower, sentences = fell(row, base), said(row, base)
        after = "refused" if row.get("error") is not None else grade(row)
        cases.append({"id": row["id"], "before": grade(base), "after": after, "fell": lower, "said": sentences,
                      "silent": bool(lower) and not sentences})  # fmt: skip
    return cases


def text(rows: list[Row], eye: dict[str, str]) -> str:
    """Both as lines for a terminal; "" where the rows hold neither."""
    lines = []
    found = against_the_eye(rows, eye)
    total = sum(sum(counts.values()) for counts in found["counts"].values())
    if total:
        kept = sum(sum(found["counts"][seen].values()) for seen in GRADES[:2])
        lines.append(f"verdict against the eye, {total} heads")
        for seen in GRADES:
            told = ", ".join(f"{count} {name}" for name, count in found["counts"][seen].items() if count) or "none"
            lines.append(f"  {seen} by eye: called {told}")
        alarms, missed = (", ".join(found[key]) or "none" for key in ("false_alarms", "missed"))
        lines.append(f"  called poor of {kept} that are not: {alarms}; wrecks called good: {missed}")
    cases = made_cases(rows)
    if cases:
        width = max(len(case["id"]) for case in cases)
        silent = sum(case["silent"] for case in cases)
        lines += ["", f"made cases against their photos: {len(cases)}, {silent} fell without a word"]
        for case in cases:
            mark = "  SILENT" if case["silent"] else ""
            lines.append(
                f"{case['id']:{width}}  {case['before']} → {case['after']}  {'; '.join(case['fell']) or 'no figure fell'}{mark}"
            )
            lines += [f"{'':{width}}    {sentence}" for sentence in case["said"]]
    return "\n".join(lines)

"""The page of `escd inspect` in a browser: what it shows, moves by, withstands, and how fast it is."""

import math
import re

import pytest
import torch
from transformers import AutoTokenizer

import escd
from escd.chat import Bridge
from escd.inspector.page import render, write_page
from escd.inspector.record import Inspector

STUDENT = [b"Br", b"Cat", b"ead", b"eads", b"eak", b"other"]
TEACHER = [b"Bread", b"Breads", b"Break", b"Cat"]
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"q\" 'q' `${1}` {{7*7}} &lt;b&gt; <!-- -->\r\n"
    "\tעברית \u202eRTL\u202c zero\u200bwidth e\u0301 \u2028 \x00\x1b 3€ 🎉 \u3164\u2800 \ufeff"
)


def page_of(path, inspector, *records):
    defaults = {"title": "it", "prompt": None, "ended": True}
    write_page(path, inspector, [{**defaults, **record} for record in records], ("student", "teacher"))
    return path


def worked_example():
    """Paper B.5: the page's record of it."""

    def logits(probabilities):
        return [math.log(probabilities.get(u.decode(), 1e-300)) for u in STUDENT]

    pair = escd.TokenizerPair(student=escd.ByteVocab(STUDENT), teacher=escd.ByteVocab(TEACHER))
    inspector = Inspector(escd.objective("escd", pair))
    rows = [{"Br": 0.5, "Cat": 0.2, "other": 0.3}, {"ead": 0.2, "eads": 0.3, "eak": 0.1, "other": 0.4}]
    z_s = torch.tensor([logits(row) for row in rows], dtype=torch.float64)
    z_t = torch.tensor([[0.4, 0.2, 0.3, 0.1]], dtype=torch.float64).log()
    return inspector, inspector.record([0, 3], [1], (lambda r: z_s[r], lambda r: z_t[r]))


@pytest.fixture(scope="module")
def vocabs(pair_dir):
    return [escd.ByteVocab.from_tokenizer(AutoTokenizer.from_pretrained(pair_dir / w)) for w in ("student", "teacher")]


@pytest.fixture(scope="module")
def inspector(vocabs):
    return Inspector(escd.objective("escd", escd.TokenizerPair(student=vocabs[0], teacher=vocabs[1])))


def record_of(inspector, vocabs, data, seed=None, stop=True):
    """A response of the tiny pair, with random logits if there is a seed."""
    ids = vocabs[0].encode(data)[0] + [vocabs[0].preferred_stop] * stop
    other = Bridge(*vocabs).to_teacher(ids).ids
    scores = None
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        z_s, z_t = (
            2 * torch.randn(len(i), len(v), generator=generator) for i, v in zip((ids, other), vocabs, strict=True)
        )
        scores = (lambda rows: z_s[rows], lambda rows: z_t[rows])
    return inspector.record(ids, other, scores)


def cells(page, selector):
    """Texts of the cells of a table's rows, without those that span it."""
    return page.eval_on_selector_all(
        f"{selector} tbody tr:not(.of)", "rows => rows.map(r => [...r.children].map(c => c.innerText))"
    )


def focused(page):
    return page.evaluate("document.activeElement.id")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    return focused(page)


def start(page):
    page.focus("#rows [tabindex='0']")
    return page


def test_the_worked_example(visit, tmp_path):
    page = visit(page_of(tmp_path / "page.html", *worked_example()))
    start(page)
    assert page.inner_text("#panel h2") == "Row 1 of 2 Br"
    assert page.locator("#panel .losses dd").all_inner_texts() == ["0.4597", "0", "0.4597"]
    assert cells(page, ".entry") == [
        ["Br ◂ sampled, teacher's token", "0.900", "0.500", "0.5290"],
        ["Cat", "0.100", "0.200", "−0.0693"],
        ["⊥ (no student token)", "0", "0.300", "0"],
    ]
    assert "from Bread 0.400 Break 0.300 Breads 0.200" in page.inner_text(".entry")
    groups = [["Bread group of 2: Breads", "0.600", "0.500", "0.4159"], ["Break", "0.300", "0.100", "0.6908"]]
    assert cells(page, ".opened") == groups
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#panel h2") == "Row 2 of 2 eads"
    assert page.locator("#panel .losses dd").all_inner_texts() == ["0", "1.1067", "1.1067"]
    assert cells(page, ".completes") == groups
    told = page.inner_text(".completes")
    assert "residual ead, completed by 2 tokens: eads 0.300 ead 0.200" in told
    assert "residual eak, completed by 1 token: eak 0.100" in told
    assert page.locator(".completes .over").all_inner_texts() == ["eads"]
    assert page.locator(".entry, .opened").count() == 0
    assert "4 bytes" not in page.inner_text("#panel .why")
    assert "2 bytes into the teacher's token Breads" in page.inner_text("#panel .why")


def test_tokens_stand_over_their_bytes(visit, tmp_path, inspector, vocabs):
    """In every line each lane's boxes cover the columns of exactly their bytes."""
    record = record_of(
        inspector, vocabs, b"the cats sat on the mats.\n\nbread breaks 12 + 7 = 19 caf\xc3\xa9 \xff" * 3
    )
    page = visit(page_of(tmp_path / "page.html", inspector, record), width=900)
    lanes = page.evaluate(
        """() => [...document.querySelectorAll(".lane")].map(lane => {
             const take = (s) => [...lane.querySelectorAll(s)].map(e =>
               [parseFloat(e.style.left), parseFloat(e.style.width), e.dataset.h || "", e.className]);
             return {t: take(".t"), s: take(".s"), b: take(".byte")}; })"""
    )
    assert len(lanes) > 3
    shown = "".join(h.replace(" ", "") for lane in lanes for *_, h, _ in lane["b"])
    assert bytes.fromhex(shown) == vocabs[0].decode(record["student"])
    for lane in lanes:  # the middle of each byte's column
        lane["columns"] = [
            (left + width * (k + 0.5) / len(data), byte)
            for left, width, told, _ in lane["b"]
            for data in [bytes.fromhex(told)]
            for k, byte in enumerate(data)
        ]
    for who, vocab in zip("st", vocabs, strict=True):
        name = {"s": "student", "t": "teacher"}[who]
        covered, open_ = [], False
        for lane in lanes:
            for left, width, _, kind in lane[who]:
                piece = bytes(b for x, b in lane["columns"] if left < x < left + width)
                covered[-1:] = [covered[-1] + piece] if open_ else [*covered[-1:], piece]
                assert open_ == ("from" in kind.split())
                open_ = "goes" in kind.split()
        assert covered == [vocab.token_bytes[i] or b"" for i in record[name]]


def test_rows_are_labelled(visit, tmp_path, inspector, vocabs):
    record = record_of(inspector, vocabs, b"the cats  sat\xc3", seed=1)
    page = visit(page_of(tmp_path / "page.html", inspector, record))
    assert page.get_attribute("#rows", "role") == "listbox"
    rows = page.locator("#rows [role=option]")
    n = len(record["student"])
    assert rows.count() == n
    marks = {"root": "R", "child": "C", "both": "RC", "interior": "in", "blank": "bl"}
    assert page.locator("#rows .kind").all_inner_texts() == [marks[kind] for kind in record["kind"]]
    assert "‹C3›" in rows.nth(n - 2).get_attribute("aria-label")
    for i, kind in enumerate(record["kind"]):
        row = rows.nth(i)
        assert (row.get_attribute("aria-posinset"), row.get_attribute("aria-setsize")) == (str(i + 1), str(n))
        assert f"row {i + 1}, " in row.get_attribute("aria-label")
        assert {"both": "root and child"}.get(kind, kind) in row.get_attribute("aria-label")
        assert f"root loss {'0,' if not record['root'][i] else ''}" in row.get_attribute("aria-label")
    assert page.locator("[aria-selected=true][role=option]").count() == 1


def test_keys(visit, tmp_path, inspector, vocabs):
    first = record_of(inspector, vocabs, b"the cats sat on the mats. bread breaks " * 6, seed=1)
    second = record_of(inspector, vocabs, b"apples")
    page = start(visit(page_of(tmp_path / "page.html", inspector, first, second), width=800))
    last = len(first["student"]) - 1
    children = [i for i, kind in enumerate(first["kind"]) if kind in ("child", "both")]
    assert focused(page) == "row-0"
    assert press(page, "ArrowRight", "ArrowRight") == "row-2"
    assert press(page, "ArrowLeft") == "row-1"
    assert press(page, "Home", "ArrowLeft") == "row-0"
    assert press(page, "End", "ArrowRight") == f"row-{last}"
    assert page.inner_text("#panel h2").startswith(f"Row {last + 1} of {last + 1} ")
    assert press(page, "Home", "n") == f"row-{children[0]}"
    assert press(page, "n") == f"row-{children[1]}"
    assert press(page, "p") == f"row-{children[0]}"
    assert press(page, "p") == f"row-{children[0]}"
    assert page.evaluate("matchMedia('print').matches") is False

    def middle():
        box = page.locator(f"#{focused(page)}").bounding_box()
        return box["x"] + box["width"] / 2, box["y"]

    press(page, "Home", *["ArrowRight"] * 5)
    x, y = middle()
    below = press(page, "ArrowDown")
    assert abs(middle()[0] - x) < 60
    assert middle()[1] > y + 50
    assert press(page, "ArrowUp", "ArrowDown") == below
    # One row is in the tab order, the panel comes after it, and what is chosen comes back.
    assert page.locator("#rows [tabindex='0']").count() == 1
    assert press(page, "Tab") == "panel"
    assert press(page, "Shift+Tab") == below
    assert press(page, "Shift+N") == "row-0"
    assert page.get_attribute("#responses [aria-selected=true]", "data-r") == "1"
    assert page.locator("#rows [role=option]").count() == len(second["student"])
    assert press(page, "Shift+N") == "row-0"
    assert press(page, "Shift+P") == below
    # Keys of the browser stay its own.
    assert press(page, "Control+ArrowRight") == below
    outline = page.eval_on_selector(
        f"#{below}", "e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth"
    )
    assert outline == "solid3px"


def test_pointing_shows_and_clicking_keeps(visit, tmp_path, inspector, vocabs):
    record = record_of(inspector, vocabs, b"the cats sat on the mats", seed=1)
    page = visit(page_of(tmp_path / "page.html", inspector, record))
    assert page.get_attribute("#panel", "data-row") == "0"
    page.hover("#row-3")
    assert page.get_attribute("#panel", "data-row") == "3"
    page.hover("h1")
    assert page.get_attribute("#panel", "data-row") == "0"
    page.hover("#rows .t >> nth=1")
    assert int(page.get_attribute("#panel", "data-row")) == record["teacher_row"].index(1)
    page.click("#row-4")
    page.hover("h1")
    assert page.get_attribute("#panel", "data-row") == "4"
    assert focused(page) == "row-4"
    # Focus alone shows a row too.
    page.evaluate("document.getElementById('row-2').focus()")
    assert page.get_attribute("#panel", "data-row") == "2"


def test_every_row_has_its_reason(visit, tmp_path):
    student = escd.ByteVocab([b"B", b"r", b"e", b"ad", b" ", b"x", None], stop_ids=[6])
    teacher = escd.ByteVocab([b"Bread", b" ", b"y", None], stop_ids=[3])
    pair = escd.TokenizerPair(student=student, teacher=teacher)
    inspector = Inspector(escd.objective("escd", pair))
    told = []
    for ids, other in (([0, 1, 2, 3, 4, 5, 5, 6], [0, 1, 2, 3]), ([0, 1, 2, 3, 4], [0])):
        page = start(visit(page_of(tmp_path / "page.html", inspector, inspector.record(ids, other))))
        for _ in ids:
            told.append(page.inner_text("#panel .where").split(" · ")[0] + ": " + page.inner_text("#panel .why"))
            page.keyboard.press("ArrowRight")
    beginnings = [
        "R root: Root: the teacher's token Bread starts here",
        "in interior: No root: 1 byte into the teacher's token Bread.\nNo child: what the token before opened, no",
        "in interior: No root: 2 bytes",
        "in interior: No root: 3 bytes",
        "bl blank: No root loss: the sampled token is blank",
        "R root: Root: the teacher's token y",
        "≠ diverged: No root: after byte 6",
        "≠ diverged",
        *["R root", "in interior", "in interior", "in interior"],
        "– no teacher row: No root: the teacher's tokens have ended",
    ]
    for words, beginning in zip(told, beginnings, strict=True):
        assert words.startswith(beginning)
    assert "No child: the row before is no root." in told[2]
    assert "No child: the first row." in told[0]


def test_hostile_text_stays_text(visit, tmp_path, inspector, vocabs):
    record = record_of(inspector, vocabs, HOSTILE.encode() + b"\xc3\xff\xf0\x9f", seed=2)
    record |= {"title": "<i>'\"", "prompt": [{"role": "</script>", "content": HOSTILE}]}
    path = page_of(tmp_path / "page.html", inspector, record)
    page = visit(path)
    assert page.locator("script").count() == 4
    assert page.locator("#response img, #response script, #rows b").count() == 0
    assert page.text_content("#prompt .text").replace("\0", "") == HOSTILE.replace("\0", "")
    data = page.locator("#rows .byte").evaluate_all("all => all.map(e => e.dataset.h).join(' ')")
    assert bytes.fromhex(data) == HOSTILE.encode() + b"\xc3\xff\xf0\x9f"
    shown = page.locator("#rows").inner_text()
    for hidden in "\u202e\u202c\u200b\u2028\x00\x1b\u3164\u2800\ufeff\u0301"[:-1]:
        assert hidden not in shown
    for legible in ("202E", "200B", "2028", "00", "1B", "3164", "FEFF", "◌\u0301", "€", "⇥", "⏎", "␣", "0D"):
        assert legible in shown
    html = path.read_text(encoding="utf-8")
    assert html.count("<script") == html.count("</script") == 4
    for name in ("\u202e", "\u200b", "\u2028"):
        assert name not in html.replace(page.text_content("body > script:last-of-type"), "")
    assert (
        render(inspector, [{"title": "", "prompt": "x", "ended": True, **record}], ("<a>", "&b")).count("&lt;a&gt;")
        == 3
    )


def test_an_empty_response(visit, tmp_path, inspector, vocabs):
    nothing, stop = (record_of(inspector, vocabs, b"", stop=stop) for stop in (False, True))
    page = visit(page_of(tmp_path / "page.html", inspector, nothing, stop))
    assert "no tokens" in page.inner_text("#panel")
    page.click("#responses button >> nth=1")
    assert page.inner_text("#panel h2") == "Row 1 of 1 </s>"


def test_it_fits_every_window_and_prints_whole(visit, tmp_path, inspector, vocabs):
    record = record_of(inspector, vocabs, b"the cats sat on the mats. bread breaks " * 40 + b"=" * 70, seed=1)
    path = page_of(tmp_path / "page.html", inspector, record)
    for width in (320, 700, 1400):
        page = start(visit(path, width=width, color_scheme="dark"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        press(page, "End")
        row, panel = (page.locator(s).bounding_box() for s in (f"#{focused(page)}", "#panel"))
        hidden = panel["x"] < row["x"] + row["width"] and panel["y"] < row["y"] + row["height"]
        assert not hidden or panel["y"] + panel["height"] < row["y"]
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function("document.querySelector('#rows').clientWidth < 500")
    assert focused(page) == f"row-{len(record['student']) - 1}"
    pages = len(re.findall(rb"/Type /Page\b", page.pdf()))
    assert pages > 3
    assert page.locator("#rows [role=option]").count() < len(record["student"])  # drawn as needed again


@pytest.mark.slow
@pytest.mark.parametrize("scored", [True, False])
def test_ten_thousand_tokens(visit, tmp_path, inspector, vocabs, scored):
    """Script time of loading, of a key and of a screen's scrolling, by the browser's own count, the best of three."""
    words = b"the cat sat on the mat.\n\nbread breaks 12 + 7 = 19 and oranges, the dogs ran to the parks. "
    data = words * (10_300 // len(vocabs[0].encode(words)[0]) + 1)
    record = record_of(inspector, vocabs, data, seed=3 if scored else None)
    assert len(record["student"]) > 10_000
    path = page_of(tmp_path / "page.html", inspector, record)
    found = {"load": [], "ArrowRight": [], "ArrowDown": [], "n": [], "End": [], "Home": [], "PageDown": []}
    for _ in range(3):
        page = visit(path)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def spent(session=session):
            metrics = session.send("Performance.getMetrics")["metrics"]
            return 1000 * next(m["value"] for m in metrics if m["name"] == "ScriptDuration")

        page.reload()
        page.wait_for_selector("#row-0")
        before = spent()
        found["load"].append(before)
        start(page)
        for key in list(found)[1:]:
            before = spent()
            page.keyboard.press(key)
            page.wait_for_timeout(100)
            found[key].append(spent() - before)
        assert page.locator("#rows [role=option]").count() < 3000
    best = {name: min(times) for name, times in found.items()}
    print(f"\nscript time in ms: { {name: round(t, 1) for name, t in best.items()} }")
    assert all(0 < t < 200 for t in best.values()), best

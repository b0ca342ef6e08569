package treepicture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/svg/svgtest"
	"github.com/shaledb/shale/internal/testenv"
)

func draw(t *testing.T, levels []Level, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Draw(&b, levels, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileKeys(t *testing.T) {
	keys := []string{
		"", "\x00\x01\x1b[31m", `"'&`, "<script>alert(1)</script>", "]]>", "\xff\xfe", "\ufffe\uffff\u2028",
		strings.Repeat("k", 1<<16-1), strings.Repeat("\x00", 1<<16-1), "</svg>",
	}
	for _, by := range []Colouring{ByBits, ByFPR, BySize} {
		for _, a := range keys {
			for _, b := range keys {
				if a > b {
					continue
				}
				levels := []Level{{Number: 6, Tables: []Table{{Number: 1, Smallest: []byte(a), Largest: []byte(b), Size: 1, Entries: 2, Filter: "<b>"}}}}
				svg := draw(t, levels, Options{By: by})
				_, elements := svgtest.Parse(t, svg)
				if elements["script"]+elements["b"] > 0 || elements["svg"] != 1 {
					t.Fatalf("elements %v of keys %.20q, %.20q", elements, a, b)
				}
				if len(svg) > 20_000 {
					t.Fatalf("%d bytes for keys %.20q, %.20q", len(svg), a, b)
				}
				raw := func(key []byte) string { return string(key[:min(len(key), 100)]) }
				svgtest.Parse(t, draw(t, levels, Options{Key: raw}))
			}
		}
	}
}

func TestEveryTableHasItsBar(t *testing.T) {
	for _, n := range []int{0, 1, 50, 2000} {
		var tables []Table
		for i := range n {
			tables = append(tables, Table{
				Number: uint64(i + 1), Run: i % 3, Smallest: fmt.Appendf(nil, "k%06d", i), Largest: fmt.Appendf(nil, "k%06d", i+2),
				Size: int64(i), Entries: 100, Filter: "blocked", FilterBits: 10, PredictedFPR: 0.01, MeasuredFPR: 0.02, Asked: 1000,
			})
		}
		svg := draw(t, []Level{{Number: 0}, {Number: 2, Tables: tables}}, Options{})
		all, elements := svgtest.Parse(t, svg)
		if bars := bytes.Count(svg, []byte(`class="table`)); bars != n || elements["rect"] < n {
			t.Errorf("%d bars of %d boxes for %d tables", bars, elements["rect"], n)
		}
		if n == 0 != strings.Contains(strings.Join(all, "\n"), "no tables") {
			t.Errorf("%d tables: %q", n, all)
		}
	}
}

// Bars of a run do not overlap, keys keep their order, and all lies between 0
// and 1.
func TestScale(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
	bars := 0
	for range 200 {
		var levels []Level
		for number := range rnd.IntN(4) {
			l := Level{Number: number}
			for at := rnd.IntN(10); at < 200; at += 1 + rnd.IntN(30) {
				end := at + rnd.IntN(20)
				l.Tables = append(l.Tables, Table{Smallest: key(at), Largest: key(end), Entries: uint64(rnd.IntN(1e6))})
				at = end
			}
			levels = append(levels, l)
		}
		s := newScale(levels)
		for _, l := range levels {
			last := 0.0
			for i := range l.Tables {
				from, to := s.span(&l.Tables[i])
				if from < last || to <= from || to > 1.000001 {
					t.Fatalf("table %d of %v: from %v to %v, the one before ends at %v", i, l.Tables, from, to, last)
				}
				last = to
				bars++
			}
		}
	}
	t.Logf("%d bars", bars)
}

func TestColours(t *testing.T) {
	var c colours
	good := Table{Filter: "blocked", FilterBits: 10, PredictedFPR: 0.01, MeasuredFPR: 0.01, Asked: 100}
	bad := good
	bad.MeasuredFPR = 0.5
	never := good
	never.MeasuredFPR = 0
	if as, worse, better := c.of(&good, ByFPR), c.of(&bad, ByFPR), c.of(&never, ByFPR); as != even || worse != too || better != less {
		t.Errorf("as predicted %s, worse %s, better %s", as, worse, better)
	}
	if got := c.of(&Table{}, ByBits); got != none {
		t.Errorf("without a filter: %s", got)
	}
	for i, name := range Colourings {
		if by, ok := ParseColouring(name); !ok || by != Colouring(i) {
			t.Errorf("%s is %d, %v", name, by, ok)
		}
	}
	if _, ok := ParseColouring("x"); ok {
		t.Error("x is a colouring")
	}
}

// A narrow picture has no sums, nothing in it is cut off, and the last key ends where the bars end.
// A picture of no tables says so, and has no legend of nothing.
func TestNarrow(t *testing.T) {
	levels := []Level{{Number: 0, Tables: []Table{
		{Number: 13, Run: 0, Smallest: []byte("a"), Largest: []byte("x"), Entries: 1}, {Number: 12, Run: 1, Smallest: []byte("b"), Largest: []byte("z"), Entries: 1},
	}}}
	svg := string(draw(t, levels, Options{Width: 340}))
	for _, want := range []string{`width="340"`, ">L0 #000013</text>", `text-anchor="end">z</text>`, ">a</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("there is no %s in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "1 table, ") {
		t.Errorf("a narrow picture has sums:\n%s", svg)
	}
	if svg := string(draw(t, nil, Options{})); strings.Contains(svg, "legend") || !strings.Contains(svg, "no tables") {
		t.Errorf("no tables:\n%s", svg)
	}
}

// Before the first flush the picture has what is in memory, from its first key to its last. Behind it, it has tables alone.
func TestMemory(t *testing.T) {
	memory := &Table{Smallest: []byte("a"), Largest: []byte("z"), Size: 5, Entries: 20_000}
	for _, width := range []int{0, 340} {
		svg := string(draw(t, nil, Options{Width: width, Memory: memory}))
		for _, want := range []string{">memtables</text>", ">20,000 entries in memory</text>", `fill="#1b7837"`, ">a</text>", ">z</text>", "not in a table yet"} {
			if !strings.Contains(svg, want) {
				t.Errorf("there is no %s in\n%s", want, svg)
			}
		}
		if strings.Contains(svg, "legend") || strings.Contains(svg, "1 table") {
			t.Errorf("there is a legend, or a table, in\n%s", svg)
		}
	}
	tables := []Level{{Number: 6, Tables: []Table{{Number: 1, Smallest: []byte("a"), Largest: []byte("z"), Entries: 1}}}}
	if svg := string(draw(t, tables, Options{Memory: memory})); strings.Contains(svg, "memtables") {
		t.Errorf("with a table there are memtables in\n%s", svg)
	}
}

// The newest run is on top, each row ends in its sum, and there is one legend.
func TestRows(t *testing.T) {
	levels := []Level{{Number: 4, Tables: []Table{
		{Number: 13, Run: -2, Smallest: []byte("a"), Largest: []byte("b")},
		{Number: 12, Run: -3, Smallest: []byte("a"), Largest: []byte("b"), Size: 5, Entries: 20_000, Filter: "blocked", FilterBits: 16},
	}}}
	svg := string(draw(t, levels, Options{By: BySize}))
	for _, want := range []string{`data-table="12"><title>#000012, L4`, "1 table, 5 B, 20k entries</text>\n</g>", `<g class="foot"`, "bytes of the table"} {
		if !strings.Contains(svg, want) {
			t.Errorf("there is no %s in\n%s", want, svg)
		}
	}
	if newer := strings.Index(svg, "run -3"); newer < 0 || newer > strings.Index(svg, "run -2") {
		t.Error("the newer run is not above the older")
	}
	if n := strings.Count(svg, `class="legend"`); n != 1 {
		t.Errorf("%d legends", n)
	}
}

// The tables of a store in a bucket have long numbers. Their names are not cut off, in a narrow picture either, and no bar is under one.
func TestLongNames(t *testing.T) {
	for _, width := range []int{0, 300} {
		svg := draw(t, []Level{{0, []Table{{Number: 1<<36 + 12345, Smallest: []byte("a"), Largest: []byte("b"), Entries: 1}}}}, Options{Width: width})
		m := regexp.MustCompile(`<text x="(\d+)" [^>]*text-anchor="end"[^>]*>(L0 #68719489081)<`).FindSubmatch(svg)
		if m == nil {
			t.Fatalf("width %d: the row has no name: %s", width, svg)
		}
		end, err := strconv.Atoi(string(m[1]))
		if err != nil || end < 7*len(m[2]) {
			t.Errorf("width %d: the name %s ends at %d, and so begins before 0", width, m[2], end)
		}
		if !bytes.Contains(svg, fmt.Appendf(nil, `<rect x="%d"`, end+6)) {
			t.Errorf("width %d: no bar begins at %d", width, end+6)
		}
	}
}

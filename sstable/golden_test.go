package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

var update = flag.Bool("update", false, "write the golden tables anew: a change of the format")

// goldenTables are files of format 1 under testdata. Bytes that a newer
// compressor may choose differently are not compared, only read.
var goldenTables = []struct {
	name  string
	opts  WriterOptions
	list  func(t testing.TB) []entry
	exact bool
}{
	{"example", WriterOptions{}, exampleEntries, true},
	{"raw", WriterOptions{BlockSize: 300, FilterBits: 10}, func(testing.TB) []entry { return goldenEntries() }, true},
	{"snappy", WriterOptions{Codec: &SnappyCodec, BlockSize: 300, FilterBits: 20, IndexPartition: 200}, manyEntries, true},
	{"zstd", WriterOptions{Codec: &ZstdCodec, BlockSize: 2000, FilterBits: 10}, manyEntries, false},
	{"empty", WriterOptions{}, func(testing.TB) []entry { return nil }, true},
}

// exampleEntries is the table that docs/FORMAT.md shows.
func exampleEntries(t testing.TB) []entry { return parseEntries(t, "ab#9,PUT=x ab#7,DEL ac#8,PUT=yz") }

func manyEntries(testing.TB) []entry { return shapes()["many"][:200] }

// TestGolden_Tables checks that tables of format 1 are the same to the byte.
func TestGolden_Tables(t *testing.T) {
	for _, g := range goldenTables {
		t.Run(g.name, func(t *testing.T) {
			list := g.list(t)
			b, _ := writeFile(t, g.opts, list)
			path := filepath.Join("testdata", g.name+"-v1.sst")
			if *update {
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if g.exact && !bytes.Equal(b, golden) {
				t.Errorf("writes %d bytes that differ from the %d of %s", len(b), len(golden), path)
			}
			checkGolden(t, golden, list)
		})
	}
}

// checkGolden reads a table of format 1, and the same as format 2.
func checkGolden(t *testing.T, b []byte, list []entry) {
	t.Helper()
	r, err := openFile(b, Info{Size: int64(len(b))})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkTable(t, r, list)
	foot := b[len(b)-footerSize:]
	foot[96]++
	binary.LittleEndian.PutUint32(foot[footerChecksum:], footerCRC(foot))
	if _, err := openFile(b, Info{Size: int64(len(b))}); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("Open of format 2 = %v, want ErrFormatTooNew", err)
	}
}

// TestGolden_FormatDocument checks that the example in docs/FORMAT.md is the example table.
func TestGolden_FormatDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "### Worked example of a table\n")
	if !ok {
		t.Fatal("FORMAT.md has no worked example of a table")
	}
	_, section, _ = strings.Cut(section, "```\n")
	section, _, _ = strings.Cut(section, "```")
	var got []byte
	for line := range strings.Lines(section) {
		digits, _, _ := strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		got = append(got, b...)
	}
	want, _ := writeFile(t, WriterOptions{}, exampleEntries(t))
	if !bytes.Equal(got, want) {
		t.Errorf("FORMAT.md shows\n%x\nthe table is\n%x", got, want)
	}
}

// TestGolden_PackageComment checks the data block in the package comment.
func TestGolden_PackageComment(t *testing.T) {
	var d dataBuilder
	for _, e := range parseEntries(t, "ab#7,PUT=x ac#7,PUT=y") {
		d.add(e.key, e.value, byte(hashOf(e)))
	}
	want := "02000000" + "02000100" + "0700000000000000" + fmt.Sprintf("%02x%02x",
		d.tags[0], d.tags[1]) + "19001c001f00" + "61" + "016278" + "016379"
	if got := hex.EncodeToString(d.finish()); got != want {
		t.Errorf("block is %s, want %s", got, want)
	}
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if tags := fmt.Sprintf("//\t%02x %02x  ", d.tags[0], d.tags[1]); !strings.Contains(string(src), tags) {
		t.Errorf("package comment does not show the tags %s", tags)
	}
}

package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/vfs"
)

const sidecarNum = base.FileNum(9)

// writeSidecarOf builds a new filter for a table and writes it as a sidecar.
func writeSidecarOf(t testing.TB, r *Reader, num base.FileNum, bits float64) ([]byte, SidecarInfo) {
	t.Helper()
	filter, err := r.BuildFilter(context.Background(), IterOptions{NoFill: true}, nil, bloom.StaticOptions{BitsPerKey: bits}, base.PrefixRule{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := vfs.NewMem().Create(base.FilterName(num))
	if err != nil {
		t.Fatal(err)
	}
	info, err := WriteSidecar(f, SidecarInfo{Num: num, StoreID: testStore, Table: r.num, TableChecksum: r.Checksum()}, filter)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size)
	if size, err := f.Size(); err != nil || size != info.Size {
		t.Fatalf("the file has %d bytes, %v; want %d", size, err, info.Size)
	}
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, filter.Bytes) || len(b) != len(filter.Bytes)+blockTail+sidecarFooter {
		t.Fatalf("the file does not begin with the filter, or has %d bytes for %d", len(b), len(filter.Bytes))
	}
	return b, info
}

// openWith opens a table with a sidecar.
func openWith(b []byte, info Info, beside []byte, want SidecarInfo) (*Reader, error) {
	return Open(bytes.NewReader(b), ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum,
		Sidecar: NewSidecar(bytes.NewReader(beside), want)})
}

// TestSidecar_RoundTrip checks that a sidecar is used instead of the filter in the table:
// from Open, or from the moment when it is set.
func TestSidecar_RoundTrip(t *testing.T) {
	for _, bits := range []float64{0, 5} {
		list := manyEntries(t)
		b, info := writeFile(t, WriterOptions{FilterBits: bits}, list)
		plain, err := openFile(b, info)
		if err != nil {
			t.Fatal(err)
		}
		beside, want := writeSidecarOf(t, plain, sidecarNum, 20)
		r, err := openWith(b, info, beside, want)
		if err != nil || r.SidecarErr() != nil || r.Sidecar() == nil || r.Sidecar().Num() != sidecarNum {
			t.Fatalf("Open = %v, sidecar %v, %v", err, r.Sidecar(), r.SidecarErr())
		}
		s := NewSidecar(bytes.NewReader(beside), want)
		f, err := plain.ReadSidecar(s)
		if err != nil {
			t.Fatal(err)
		}
		plain.SetSidecar(s, f)
		for _, r := range []*Reader{r, plain} {
			if got := r.Filter().BitsPerKey(); got < 20 {
				t.Errorf("the filter has %v bits a key", got)
			}
			checkTable(t, r, list)
			if got, err := r.AppendFilter([]byte("before"), s); err != nil || string(got) != "before"+string(beside[:len(beside)-blockTail-sidecarFooter]) {
				t.Errorf("AppendFilter gives %d bytes, %v", len(got), err)
			}
			if err := r.VerifyWith(context.Background(), s, nil); err != nil {
				t.Error(err)
			}
			if !r.DropSecondUnit() || !r.DropFilter() {
				t.Error("nothing was dropped")
			}
			if _, err := r.LoadFilter(false); err != nil || r.Filter().Units() != 2 {
				t.Errorf("LoadFilter = %v, %v", err, r.Filter())
			}
		}
	}
}

// TestSidecar_Golden checks that a sidecar of format 1 is the same to the byte, and what its
// reader returns for format 2.
func TestSidecar_Golden(t *testing.T) {
	list := exampleEntries(t)
	b, info := writeFile(t, WriterOptions{}, list)
	plain, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	made, want := writeSidecarOf(t, plain, sidecarNum, 10)
	path := filepath.Join("testdata", "example-v1.flt")
	if *update {
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, golden) {
		t.Errorf("writes\n%x, the file has\n%x", made, golden)
	}
	if doc := documentedSidecar(t); !bytes.Equal(doc, golden) {
		t.Errorf("FORMAT.md shows\n%x, the file has\n%x", doc, golden)
	}
	if r, err := openWith(b, info, golden, want); err != nil || r.SidecarErr() != nil {
		t.Errorf("Open = %v, %v", err, r.SidecarErr())
	}
	newer := bytes.Clone(golden)
	foot := newer[len(newer)-sidecarFooter:]
	foot[52]++
	binary.LittleEndian.PutUint32(foot[sidecarChecksum:], footerCRC(foot))
	r, err := openWith(b, info, newer, want)
	if err != nil || r.Filter() != nil || !errors.Is(r.SidecarErr(), base.ErrFormatTooNew) || !strings.Contains(r.SidecarErr().Error(), "000009.flt") {
		t.Errorf("version 2: Open = %v, filter %v, %v; want ErrFormatTooNew", err, r.Filter(), r.SidecarErr())
	}
}

// documentedSidecar reads the worked example of FORMAT.md.
func documentedSidecar(t *testing.T) []byte {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "docs", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "as file 9 next to it:\n")
	if !ok {
		t.Fatal("FORMAT.md has no worked example of a sidecar")
	}
	_, section, _ = strings.Cut(section, "```\n")
	section, _, _ = strings.Cut(section, "```")
	var b []byte
	for line := range strings.Lines(section) {
		digits, _, _ := strings.Cut(line, "   ")
		part, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		b = append(b, part...)
	}
	return b
}

// unusable checks that a sidecar is not used, that its error and Verify's name it, and that
// the filter in the table is used.
func unusable(t *testing.T, what string, b []byte, info Info, beside []byte, want SidecarInfo) {
	t.Helper()
	r, err := openWith(b, info, beside, want)
	if err != nil {
		t.Fatalf("%s: Open = %v", what, err)
	}
	var c *base.CorruptionError
	if !errors.As(r.SidecarErr(), &c) || c.File != base.FilterName(want.Num) || c.Offset < 0 {
		t.Errorf("%s: SidecarErr() = %v", what, r.SidecarErr())
	}
	if r.Sidecar() != nil || r.Filter() == nil || r.Filter().Units() != 1 || r.FilterErr() != nil {
		t.Errorf("%s: the filter in the table is not in use: %v, sidecar %v", what, r.FilterErr(), r.Sidecar())
	}
	if got, err := r.AppendFilter(nil, NewSidecar(bytes.NewReader(beside), want)); err != nil || int64(len(got)) != r.FilterBytes() {
		t.Errorf("%s: AppendFilter gives %d bytes, %v; the table has %d", what, len(got), err, r.FilterBytes())
	}
	if err := r.VerifyWith(context.Background(), NewSidecar(bytes.NewReader(beside), want), nil); !errors.As(err, &c) || c.File != base.FilterName(want.Num) {
		t.Errorf("%s: Verify = %v", what, err)
	}
}

// TestSidecar_Damaged changes each byte, and cuts at each length. The sidecar is not used,
// and its error says why.
func TestSidecar_Damaged(t *testing.T) {
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, damageEntries())
	plain, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	beside, want := writeSidecarOf(t, plain, sidecarNum, 20)
	for i := range beside {
		flipped := bytes.Clone(beside)
		flipped[i] ^= 1 << (i % 8)
		r, err := openWith(b, info, flipped, want)
		if err != nil || r.Sidecar() != nil || r.SidecarErr() == nil || !strings.Contains(r.SidecarErr().Error(), "000009.flt") {
			t.Fatalf("byte %d changed: Open = %v, sidecar %v, %v", i, err, r.Sidecar(), r.SidecarErr())
		}
		unusable(t, "cut", b, info, beside[:i], want)
	}
	unusable(t, "longer", b, info, append(bytes.Clone(beside), 0), want)
	for _, size := range []int64{0, -1, 5, 1 << 31, 1 << 60} {
		want := want
		want.Size = size
		unusable(t, "of another size", b, info, beside, want)
	}
	want.Checksum++
	unusable(t, "checksum of the manifest", b, info, beside, want)
}

// A missing is a file that does not exist.
type missing struct{}

func (missing) ReadAt([]byte, int64) (int, error) { return 0, fs.ErrNotExist }

// TestSidecar_Missing checks that a missing file is damage, since the manifest names it.
func TestSidecar_Missing(t *testing.T) {
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, damageEntries())
	r, err := Open(bytes.NewReader(b), ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum,
		Sidecar: NewSidecar(missing{}, SidecarInfo{Num: sidecarNum, Size: 200})})
	var c *base.CorruptionError
	if err != nil || r.Filter() == nil || !errors.As(r.SidecarErr(), &c) || !errors.Is(c, fs.ErrNotExist) {
		t.Errorf("Open = %v, filter %v, %v", err, r.Filter(), r.SidecarErr())
	}
}

// TestSidecar_Foreign checks that a filter is used only for the table that it was built from,
// and under its own number. The others here are those of another table with as many keys.
func TestSidecar_Foreign(t *testing.T) {
	list := parseEntries(t, "a#3,PUT=x b#2,PUT=y c#1,PUT=z")
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, list)
	others := map[string]struct {
		table base.FileNum
		store uint64
		num   base.FileNum
	}{
		"of another table":                {8, testStore, sidecarNum},
		"of another store":                {testNum, 99, sidecarNum},
		"of another table of this number": {testNum, testStore, sidecarNum},
		"of another number":               {testNum, testStore, 10},
	}
	for what, other := range others {
		otherBytes, otherInfo := writeFile(t, WriterOptions{Num: other.table, StoreID: other.store}, parseEntries(t, "a1#3,PUT=x b1#2,PUT=y c1#1,PUT=z"))
		src, err := Open(bytes.NewReader(otherBytes), ReaderOptions{Size: otherInfo.Size, Num: other.table, StoreID: other.store})
		if err != nil {
			t.Fatal(err)
		}
		filter, err := src.BuildFilter(context.Background(), IterOptions{}, nil, bloom.StaticOptions{BitsPerKey: 20}, base.PrefixRule{})
		if err != nil {
			t.Fatal(err)
		}
		made := SidecarInfo{Num: other.num, StoreID: other.store, Table: src.num, TableChecksum: src.Checksum()}
		beside := appendSidecar(nil, &made, filter)
		unusable(t, what, b, info, beside, SidecarInfo{Num: sidecarNum, StoreID: testStore, Table: testNum,
			TableChecksum: info.Checksum, Size: made.Size, Checksum: made.Checksum})
	}
	// Even with the right footer, Verify finds that it denies keys.
	src, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	hashes := []uint64{bloom.Hash([]byte("a1")), bloom.Hash([]byte("b1")), bloom.Hash([]byte("c1"))}
	filter, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{BitsPerKey: 20})
	if err != nil {
		t.Fatal(err)
	}
	made := SidecarInfo{Num: sidecarNum, StoreID: testStore, Table: testNum, TableChecksum: info.Checksum}
	beside := appendSidecar(nil, &made, BuiltFilter{Bytes: filter})
	var c *base.CorruptionError
	err = src.VerifyWith(context.Background(), NewSidecar(bytes.NewReader(beside), made), nil)
	if !errors.As(err, &c) || c.File != "000009.flt" || !errors.Is(err, errNotInFilter) {
		t.Errorf("Verify = %v", err)
	}
}

// FuzzSidecar reads any bytes as a sidecar. The result is a filter, or an error that names
// the file. It allocates no more than the file's size explains.
func FuzzSidecar(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "example-v1.flt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, uint8(0), uint16(0))
	f.Add(golden[:70], uint8(10), uint16(1))
	f.Add([]byte{}, uint8(0), uint16(3))
	limit := fuzzing.Limit{Bytes: 4 << 10, PerByte: 4}
	f.Fuzz(func(t *testing.T, b []byte, more uint8, keys uint16) {
		if n := len(b); n >= sidecarFooter {
			foot := b[n-sidecarFooter:]
			binary.LittleEndian.PutUint32(foot[sidecarChecksum:], footerCRC(foot))
		}
		info := SidecarInfo{Num: sidecarNum, StoreID: testStore, Table: testNum, Size: int64(len(b)) + int64(more)}
		if n := len(b); n >= sidecarFooter+4 {
			info.TableChecksum = binary.LittleEndian.Uint32(b[n-sidecarFooter+32:])
			info.Checksum = ownChecksum(b[:max(0, n-sidecarFooter-blockTail)])
		}
		limit.Check(t, len(b), func() {
			l, err := NewSidecar(bytes.NewReader(b), info).read(uint64(keys))
			if err == nil && l.filter.Count() < uint64(keys) {
				t.Errorf("a filter of %d keys, asked for %d", l.filter.Count(), keys)
			}
			if err != nil && !strings.Contains(err.Error(), "000009.flt") {
				t.Errorf("error %v does not name the file", err)
			}
		})
	})
}

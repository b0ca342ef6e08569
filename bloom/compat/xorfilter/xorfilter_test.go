package xorfilter

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	peer "github.com/FastFilter/xorfilter"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/peertest"
	"github.com/shaledb/shale/internal/testenv"
)

// hashes returns the hashes of n keys, which are mix(1) and so on.
func hashes(n int) []uint64 {
	h := make([]uint64, n)
	for i := range h {
		h[i] = mix(uint64(i) + 1)
	}
	return h
}

// A filter is a Fuse or an Xor8.
type filter interface {
	MayContainHash(h uint64) bool
	AppendBinary(dst []byte) ([]byte, error)
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
	encoding.TextMarshaler
	encoding.TextUnmarshaler
	io.WriterTo
	io.ReaderFrom
	fmt.Stringer
}

func mustMarshal(t testing.TB, f encoding.BinaryMarshaler) []byte {
	t.Helper()
	b, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustFuse[T Unsigned](t testing.TB, hashes []uint64) *Fuse[T] {
	t.Helper()
	f, err := NewFuse[T](hashes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustXor8(t testing.TB, hashes []uint64) *Xor8 {
	t.Helper()
	f, err := NewXor8(hashes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sameAnswers asks for 100,000 hashes, of which the first added are in the filter.
func sameAnswers(t *testing.T, what string, added int, ours, theirs func(h uint64) bool) {
	t.Helper()
	yes, differing := 0, 0
	for i, h := range hashes(100_000) {
		want := theirs(h)
		if want {
			yes++
		} else if i < added {
			t.Fatalf("%s: the peer denies key %d", what, i)
		}
		if ours(h) != want {
			differing++
		}
	}
	if differing > 0 || yes == 100_000 {
		t.Errorf("%s: %d of 100,000 answers differ, %d are yes", what, differing, yes)
	}
	t.Logf("%s: 100,000 answers, %d of them yes, %d differ", what, yes, differing)
}

// The peer's filter and ours have the same bytes, and each reads the other's with the same
// answers.
func TestPeer_Fuse(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 1000, 50_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Run("8", func(t *testing.T) { testPeer[uint8](t, n) })
			t.Run("16", func(t *testing.T) { testPeer[uint16](t, n) })
			t.Run("32", func(t *testing.T) { testPeer[uint32](t, n) })
		})
	}
}

func testPeer[T Unsigned](t *testing.T, n int) {
	theirs, err := peer.NewBinaryFuse[T](hashes(n))
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := theirs.Save(&saved); err != nil {
		t.Fatal(err)
	}
	built := mustFuse[T](t, hashes(n))
	if b := mustMarshal(t, built); !bytes.Equal(b, saved.Bytes()) {
		t.Fatalf("we write %d bytes, the peer %d others", len(b), saved.Len())
	}
	opened, err := OpenFuse[T](saved.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	sameAnswers(t, "ours of the peer's bytes", n, opened.MayContainHash, theirs.Contains)

	loaded, err := peer.LoadBinaryFuse[T](bytes.NewReader(mustMarshal(t, built)))
	if err != nil || !reflect.DeepEqual(loaded, theirs) {
		t.Fatalf("the peer reads another filter: %v", err)
	}
	sameAnswers(t, "the peer's of our bytes", n, built.MayContainHash, loaded.Contains)
	testFields(t, FuseFields[T](*theirs), theirs, func(f FuseFields[T]) (filter, error) { return f.Open() }, saved.Bytes())
	if fields := built.Fields(); !reflect.DeepEqual(peer.BinaryFuse[T](fields), *theirs) {
		t.Error("Fields are others than the peer's")
	}
}

// testFields writes the peer's filter with gob and JSON, and reads its fields.
func testFields[F, P any](t *testing.T, fields F, theirs P, open func(F) (filter, error), want []byte) {
	t.Helper()
	var stream bytes.Buffer
	if err := gob.NewEncoder(&stream).Encode(theirs); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if ours, err := json.Marshal(fields); err != nil || !bytes.Equal(ours, j) {
		t.Errorf("JSON of the fields is %s, %v, want %s", ours, err, j)
	}
	var fromGob, fromJSON F
	if err := gob.NewDecoder(&stream).Decode(&fromGob); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(j, &fromJSON); err != nil {
		t.Fatal(err)
	}
	for what, fields := range map[string]F{"gob": fromGob, "JSON": fromJSON} {
		f, err := open(fields)
		if err != nil || !bytes.Equal(mustMarshal(t, f), want) {
			t.Errorf("of the peer's %s another filter is made: %v", what, err)
		}
	}
}

func TestPeer_Xor8(t *testing.T) {
	for _, n := range []int{1, 2, 1000, 50_000} {
		theirs, err := peer.Populate(hashes(n))
		if err != nil {
			t.Fatal(err)
		}
		f := mustXor8(t, hashes(n))
		sameAnswers(t, "Xor8", n, f.MayContainHash, theirs.Contains)
		fields := f.Fields()
		if !reflect.DeepEqual(peer.Xor8(fields), *theirs) {
			t.Error("Fields are others than the peer's")
		}
		testFields(t, fields, theirs, func(f Xor8Fields) (filter, error) { return f.Open() }, mustMarshal(t, f))
	}
}

// xor_singleheader of January 2026 wrote these files on amd64, with the 1000 keys of
// hashes(1000). yes is the number of the first 101,000 hashes for which it answered maybe.
func TestVectors_OfC(t *testing.T) {
	for _, c := range []struct {
		name string
		yes  int
		f    filter
	}{
		{"c-1000.fuse8", 1405, new(Fuse[uint8])}, {"c-1000.fuse16", 1002, new(Fuse[uint16])}, {"c-1000.xor8", 1420, new(Xor8)},
	} {
		b, err := os.ReadFile("testdata/" + c.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.f.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if c.name == "c-1000.fuse16" {
			b = b[:len(b)-spareLen]
		}
		if !bytes.Equal(mustMarshal(t, c.f), b) {
			t.Errorf("%s is written otherwise", c.name)
		}
		yes := 0
		for i, h := range hashes(101_000) {
			if c.f.MayContainHash(h) {
				yes++
			} else if i < 1000 {
				t.Fatalf("%s denies key %d", c.name, i)
			}
		}
		if yes != c.yes {
			t.Errorf("%s: %d of 101,000 keys may be in the filter, xor_singleheader says %d", c.name, yes, c.yes)
		}
	}
}

// The two headers differ in two words, and each can be made of the other.
func TestForms(t *testing.T) {
	b, err := os.ReadFile("testdata/c-1000.fuse16")
	if err != nil {
		t.Fatal(err)
	}
	b = b[:len(b)-spareLen]
	ofC, err := OpenFuse[uint16](b)
	if err != nil || ofC.Count() != 1000 {
		t.Fatalf("%v keys, %v", ofC.Count(), err)
	}
	inGo, err := ofC.AppendGo(nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := peer.LoadBinaryFuse[uint16](bytes.NewReader(inGo))
	if err != nil {
		t.Fatal(err)
	}
	sameAnswers(t, "the Go library's of the C library's filter", 1000, ofC.MayContainHash, theirs.Contains)
	ofGo, err := OpenFuse[uint16](inGo)
	if err != nil || ofGo.Count() != 0 {
		t.Fatalf("%v keys, %v", ofGo.Count(), err)
	}
	if inC, err := ofGo.AppendC([]byte("x"), 1000); err != nil || !bytes.Equal(inC[1:], b) {
		t.Errorf("to Go and back to C: %v", err)
	}
	if inC, err := mustFuse[uint8](t, hashes(7)).AppendC(nil, 0); err != nil || inC[8] != 7 {
		t.Errorf("the number of keys of a built filter is not written: %v", err)
	}
	if _, err := mustFuse[uint32](t, hashes(7)).AppendC(nil, 7); !errors.Is(err, ErrParameters) {
		t.Errorf("AppendC with 32 bits: %v", err)
	}
}

// The filter of the package comment, and some others, are the same bytes for ever.
func TestGolden(t *testing.T) {
	want := "c15c0289ec2d0a91" + "0400000003000000" + "0100000004000000" + "0c000000" + "000000000000000000000071"
	if got := hex.EncodeToString(mustMarshal(t, mustFuse[uint8](t, []uint64{1}))); got != want {
		t.Errorf("the filter of one hash is %s, want %s", got, want)
	}
	for name, f := range map[string]filter{
		"thirty.fuse8": mustFuse[uint8](t, hashes(30)), "thirty.fuse16": mustFuse[uint16](t, hashes(30)), "thirty.fuse32": mustFuse[uint32](t, hashes(30)),
		"thirty.xor8": mustXor8(t, hashes(30)),
	} {
		peertest.Golden(t, name, mustMarshal(t, f))
	}
}

func TestNew(t *testing.T) {
	given := []uint64{5, 5, 5, 3, 1, 1}
	kept := append([]uint64(nil), given...)
	f, x := mustFuse[uint16](t, given), mustXor8(t, given)
	if !reflect.DeepEqual(given, kept) {
		t.Errorf("the hashes are now %v", given)
	}
	for _, h := range given {
		if !f.MayContainHash(h) || !x.MayContainHash(h) {
			t.Errorf("%d is denied", h)
		}
	}
	if _, err := NewXor8(nil); !errors.Is(err, ErrParameters) {
		t.Errorf("NewXor8 of no hashes: %v", err)
	}
	if b := f.Bits(); b != 16 || f.FPR() != 1.0/65536 || x.FPR() != 1.0/256 || f.SizeBytes() != 2*len(f.Fields().Fingerprints) || x.SizeBytes() != len(x.Fields().Fingerprints) {
		t.Errorf("%v, %v", f, x)
	}
}

func TestKeys(t *testing.T) {
	type asked interface {
		SetHash(hash func(key []byte) uint64)
		MayContain(key []byte) bool
		MayContainString(s string) bool
		MayContainKeys(keys [][]byte, out []bool)
		MayContainMany(hashes []uint64, out []bool)
	}
	one, two := bloom.Hash([]byte("one")), bloom.Hash([]byte("two"))
	for _, f := range []asked{mustFuse[uint8](t, []uint64{one}), mustFuse[uint32](t, []uint64{one}), mustXor8(t, []uint64{one})} {
		if !f.MayContainString("one") || !f.MayContainString("two") {
			t.Errorf("%T denies a key whose hash is unknown", f)
		}
		f.SetHash(bloom.Hash)
		if !f.MayContainString("one") || f.MayContainString("two") || !f.MayContain([]byte("one")) || f.MayContain([]byte("two")) {
			t.Errorf("%T denies a key, or not another", f)
		}
		want := []bool{true, false, true}
		out := make([]bool, 3)
		if f.MayContainKeys([][]byte{[]byte("one"), []byte("two")}, out); !reflect.DeepEqual(out, want) {
			t.Errorf("%T: MayContainKeys = %v", f, out)
		}
		out = make([]bool, 3)
		if f.MayContainMany([]uint64{one, two}, out); !reflect.DeepEqual(out, want) {
			t.Errorf("%T: MayContainMany = %v", f, out)
		}
		f.MayContainMany([]uint64{two, one}, out[:1])
		if out[0] || out[1] {
			t.Errorf("%T: MayContainMany of less = %v", f, out)
		}
	}
}

func TestZeroFilter_SaysMaybe(t *testing.T) {
	for _, f := range []filter{new(Fuse[uint8]), new(Fuse[uint16]), new(Fuse[uint32]), new(Xor8)} {
		_, binaryErr := f.MarshalBinary()
		_, textErr := f.MarshalText()
		_, writeErr := f.WriteTo(io.Discard)
		for _, err := range []error{binaryErr, textErr, writeErr} {
			if !errors.Is(err, ErrParameters) {
				t.Errorf("%T: a filter without fingerprints is written: %v", f, err)
			}
		}
		if !f.MayContainHash(1) || !strings.HasSuffix(f.String(), "says maybe to every key") {
			t.Errorf("%T denies a key", f)
		}
	}
	if new(Fuse[uint8]).FPR() != 1 || new(Xor8).FPR() != 1 {
		t.Error("FPR of a filter that says maybe is not 1")
	}
	if _, err := new(Fuse[uint8]).Fields().Open(); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("the fields of the zero filter: %v", err)
	}
}

func TestAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	f, x := mustFuse[uint16](t, hashes(100)), mustXor8(t, hashes(100))
	f.SetHash(bloom.Hash)
	x.SetHash(bloom.Hash)
	if n := testing.AllocsPerRun(100, func() {
		f.MayContainString("key")
		x.MayContainString("key")
		f.MayContainHash(1)
		x.MayContainHash(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReadFrom_OneByteAtATime(t *testing.T) {
	for _, f := range []filter{mustFuse[uint8](t, hashes(9000)), mustFuse[uint16](t, hashes(1)), mustFuse[uint32](t, hashes(3000)), mustXor8(t, hashes(9000))} {
		var b bytes.Buffer
		if n, err := f.WriteTo(&b); err != nil || n != int64(b.Len()) || !bytes.Equal(b.Bytes(), mustMarshal(t, f)) {
			t.Fatalf("%T: WriteTo = %d, %v", f, n, err)
		}
		want := b.Len()
		b.WriteString("the next thing")
		again := reflect.New(reflect.TypeOf(f).Elem()).Interface().(filter)
		if n, err := again.ReadFrom(iotest.OneByteReader(&b)); err != nil || n != int64(want) {
			t.Fatalf("%T: ReadFrom = %d, %v, want %d", f, n, err, want)
		}
		if b.String() != "the next thing" || !bytes.Equal(mustMarshal(t, again), mustMarshal(t, f)) {
			t.Errorf("%T: read another filter, or too far: %q is left", f, b.String())
		}
		text, err := f.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		fromText := reflect.New(reflect.TypeOf(f).Elem()).Interface().(filter)
		if err := fromText.UnmarshalText(text); err != nil || !bytes.Equal(mustMarshal(t, fromText), mustMarshal(t, f)) {
			t.Errorf("%T: its text is of another: %v", f, err)
		}
	}
}

// Open keeps the bytes, and reading copies them.
func TestOpen_KeepsItsBytes(t *testing.T) {
	b := mustMarshal(t, mustFuse[uint16](t, hashes(10)))
	f, err := OpenFuse[uint16](b)
	if err != nil || &f.bytes[0] != &b[headerLen] {
		t.Errorf("OpenFuse copies: %v", err)
	}
	x := mustMarshal(t, mustXor8(t, hashes(10)))
	g, err := OpenXor8(x)
	if err != nil || &g.bytes[0] != &x[xorHeaderLen] {
		t.Errorf("OpenXor8 copies: %v", err)
	}
	var f2 Fuse[uint16]
	var g2 Xor8
	if f2.UnmarshalBinary(b) != nil || g2.UnmarshalBinary(x) != nil || &f2.bytes[0] == &b[headerLen] || &g2.bytes[0] == &x[xorHeaderLen] {
		t.Error("UnmarshalBinary keeps the bytes of the caller")
	}
}

func TestDamage(t *testing.T) {
	fuse, xor := mustFuse[uint8](t, hashes(1000)), mustXor8(t, hashes(1000))
	goodFuse, goodXor := mustMarshal(t, fuse), mustMarshal(t, xor)
	change := func(good []byte, at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] ^= v
		return b
	}
	for _, c := range []struct {
		what string
		f    filter
		b    []byte
		is   error
		says string
	}{
		{"nothing", fuse, nil, io.EOF, "after 0 bytes"},
		{"half a header", fuse, goodFuse[:20], io.ErrUnexpectedEOF, "after 20 bytes"},
		{"cut", fuse, goodFuse[:len(goodFuse)-1], bloom.ErrDamaged, "fingerprints of 8 bits in"},
		{"too long", fuse, append(bytes.Clone(goodFuse), 0), bloom.ErrDamaged, "fingerprints of 8 bits in"},
		{"another length", fuse, change(goodFuse, 8, 1), bloom.ErrDamaged, "segments of"},
		{"another mask", fuse, change(goodFuse, 12, 2), bloom.ErrDamaged, "the third word is"},
		{"other segments", fuse, change(goodFuse, 16, 1), bloom.ErrDamaged, "segments"},
		{"no segments", fuse, append(append(bytes.Clone(goodFuse[:16]), 0, 0, 0, 0), goodFuse[20:]...), bloom.ErrDamaged, "segments"},
		{"other places", fuse, change(goodFuse, 20, 1), bloom.ErrDamaged, "places"},
		{"other fingerprints", fuse, change(goodFuse, 24, 1), bloom.ErrDamaged, "fingerprints"},
		{"spare bytes of Go", new(Fuse[uint16]), append(mustMarshal(t, mustFuse[uint16](t, hashes(9))), 1, 2, 3, 4), bloom.ErrDamaged, "fingerprints of 16 bits in"},
		{"wider fingerprints", new(Fuse[uint16]), goodFuse, bloom.ErrDamaged, "fingerprints of 16 bits in"},
		{"big-endian", fuse, bigEndian(goodFuse), bloom.ErrDamaged, "big-endian"},
		{"nothing of an Xor8", xor, nil, io.EOF, "after 0 bytes"},
		{"half a header of an Xor8", xor, goodXor[:15], io.ErrUnexpectedEOF, "after 15 bytes"},
		{"a cut Xor8", xor, goodXor[:len(goodXor)-1], bloom.ErrDamaged, "fingerprints in"},
		{"too long an Xor8", xor, append(bytes.Clone(goodXor), 0), bloom.ErrDamaged, "fingerprints in"},
		{"an empty Xor8", xor, make([]byte, 16), bloom.ErrDamaged, "three blocks of 0"},
		{"a large Xor8", xor, change(goodXor, 12, 1), bloom.ErrDamaged, "three blocks of"},
	} {
		before, _ := c.f.MarshalBinary()
		err := c.f.UnmarshalBinary(c.b)
		if err == nil || !errors.Is(err, c.is) || !errors.Is(err, bloom.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if after, _ := c.f.MarshalBinary(); !bytes.Equal(before, after) {
			t.Errorf("%s: the filter has changed", c.what)
		}
		if err := c.f.UnmarshalText([]byte("*")); !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("a text that is no base64: %v", err)
		}
	}
	broken := errors.New("the disk is broken")
	for _, f := range []filter{fuse, xor} {
		good := mustMarshal(t, f)
		for _, n := range []int{1, 20, 100} {
			if _, err := f.ReadFrom(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, bloom.ErrDamaged) {
				t.Errorf("%T: an error of the reader after %d bytes: %v", f, n, err)
			}
			if m, err := f.ReadFrom(bytes.NewReader(good[:n])); m != int64(n) || !errors.Is(err, bloom.ErrDamaged) || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%T: a stream that is cut after %d bytes: %d, %v", f, n, m, err)
			}
		}
	}
}

// bigEndian returns a Fuse as a big-endian machine writes it.
func bigEndian(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at < headerLen; {
		size := 4
		if at == 0 {
			size = 8
		}
		for i := range size / 2 {
			b[at+i], b[at+size-1-i] = b[at+size-1-i], b[at+i]
		}
		at += size
	}
	return b
}

func TestDamage_OfFields(t *testing.T) {
	good := mustFuse[uint16](t, hashes(100)).Fields()
	for what, change := range map[string]func(f *FuseFields[uint16]){
		"length":       func(f *FuseFields[uint16]) { f.SegmentLength++ },
		"mask":         func(f *FuseFields[uint16]) { f.SegmentLengthMask++ },
		"count":        func(f *FuseFields[uint16]) { f.SegmentCount++ },
		"count length": func(f *FuseFields[uint16]) { f.SegmentCountLength++ },
		"fingerprints": func(f *FuseFields[uint16]) { f.Fingerprints = f.Fingerprints[1:] },
	} {
		bad := good
		if change(&bad); !reflect.DeepEqual(bad, good) {
			if f, err := bad.Open(); f != nil || !errors.Is(err, bloom.ErrDamaged) {
				t.Errorf("another %s: %v, %v", what, f, err)
			}
		}
	}
	for _, bad := range []Xor8Fields{{}, {BlockLength: 1, Fingerprints: []byte{1, 2}}, {BlockLength: 1 << 31, Fingerprints: []byte{1, 2, 3}}} {
		if f, err := bad.Open(); f != nil || !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("%+v: %v, %v", bad, f, err)
		}
	}
}

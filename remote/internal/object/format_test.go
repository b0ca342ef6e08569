package object

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// TestFormat_WorkedExamples checks that each object is written as docs/REMOTE.md shows it, and
// that what it shows can be read.
func TestFormat_WorkedExamples(t *testing.T) {
	for _, o := range examples() {
		got, want := o.bytes(t), documented(t, o.kind)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: written\n%s, documented\n%s", o.kind, hex.Dump(got), hex.Dump(want))
		}
		back, err := o.decode(o.name, remotetest.ExampleStore, want)
		if err != nil || !bytes.Equal(back, want) {
			t.Errorf("%s: what is documented reads back as %x, %v", o.kind, back, err)
		}
	}
}

// TestFormat_PackageComment checks the example of the package comment.
func TestFormat_PackageComment(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	mustNil(t, err)
	all := strings.ReplaceAll(string(text), " ", "")
	for part := range slices.Chunk(documented(t, "identity"), 8) {
		if !strings.Contains(all, hex.EncodeToString(part)) {
			t.Errorf("doc.go lacks the bytes % x of an identity", part)
		}
	}
}

// TestFormat_AppendsToWhatIsThere checks that checksums do not cover what was in dst before.
func TestFormat_AppendsToWhatIsThere(t *testing.T) {
	for _, o := range examples() {
		got, err := o.encode([]byte("before"))
		mustNil(t, err)
		if want := append([]byte("before"), o.bytes(t)...); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", o.kind, got, want)
		}
	}
}

// TestFormat_EveryBitCounts flips each bit of each object, cuts it at each byte, and adds a byte.
func TestFormat_EveryBitCounts(t *testing.T) {
	for _, o := range examples() {
		good := o.bytes(t)
		for bit := range 8 * len(good) {
			_, err := o.decode(o.name, remotetest.ExampleStore, remotetest.Flipped(good, bit))
			if err == nil {
				t.Errorf("%s: bit %d of byte %d flipped: it is accepted", o.kind, bit%8, bit/8)
				continue
			}
			remotetest.MustBeDamage(t, o.name, err)
			// A flip is not a newer version: nobody shall look for another program.
			if errors.Is(err, base.ErrFormatTooNew) {
				t.Errorf("%s: bit %d of byte %d flipped: %v", o.kind, bit%8, bit/8, err)
			}
		}
		for i := range good {
			if _, err := o.decode(o.name, remotetest.ExampleStore, good[:i]); err == nil {
				t.Errorf("%s: cut to %d bytes: it is accepted", o.kind, i)
			}
		}
		if _, err := o.decode(o.name, remotetest.ExampleStore, append(good, 0)); err == nil {
			t.Errorf("%s: a byte too many: it is accepted", o.kind)
		}
	}
}

// TestFormat_OtherStoreOrPlace checks that an object is found out that belongs to another store,
// stands under another name, or is of another kind.
func TestFormat_OtherStoreOrPlace(t *testing.T) {
	elsewhere := map[string]string{
		"identity": "id2", "segment": SegmentName(12, 0x1001), "step": StepName(8), "state": StateName(8), "pin": "p/after-upgrade",
	}
	all := examples()
	for i, o := range all {
		good := o.bytes(t)
		if _, err := o.decode(o.name, remotetest.ExampleStore+1, good); err == nil {
			t.Errorf("%s of another store is accepted", o.kind)
		} else {
			remotetest.MustBeDamage(t, o.name, err)
		}
		if _, err := o.decode(elsewhere[o.kind], remotetest.ExampleStore, good); err == nil {
			t.Errorf("%s under the name %s is accepted", o.kind, elsewhere[o.kind])
		}
		if _, err := o.decode(o.name, remotetest.ExampleStore, all[(i+2)%len(all)].bytes(t)); err == nil {
			t.Errorf("%s in the place of a %s is accepted", all[(i+2)%len(all)].kind, o.kind)
		}
	}
}

// TestFormat_NewerVersion checks that an object of a later version is called that, whatever else
// is in it, and that version 0 is damage.
func TestFormat_NewerVersion(t *testing.T) {
	for _, o := range examples() {
		for version, newer := range map[byte]bool{FormatVersion + 1: true, 255: true, 0: false} {
			b := o.bytes(t)
			b[8] = version
			b = slices.Concat(AppendSum(b[:12:12], 0), []byte("and anything"), b)
			_, err := o.decode(o.name, remotetest.ExampleStore, b)
			if err == nil || errors.Is(err, base.ErrFormatTooNew) != newer {
				t.Errorf("%s of version %d: %v", o.kind, version, err)
			}
		}
	}
}

// TestFormat_UnknownFields checks the rule for tags: even ones are refused, odd ones are skipped.
func TestFormat_UnknownFields(t *testing.T) {
	for _, o := range examples() {
		if o.kind == "identity" || o.kind == "segment" {
			continue // they have no fields
		}
		good := o.bytes(t)
		with := func(field ...byte) []byte {
			return resealed(slices.Concat(good[:len(good)-SumSize], field, make([]byte, SumSize)))
		}
		if back, err := o.decode(o.name, remotetest.ExampleStore, with(21, 3, 'x', 'y', 'z')); err != nil || !bytes.Equal(back, good) {
			t.Errorf("%s with an unknown field of an odd tag: %x, %v; want it skipped", o.kind, back, err)
		}
		for _, tag := range []byte{22, 64} {
			if _, err := o.decode(o.name, remotetest.ExampleStore, with(tag, 1, 1)); !errors.Is(err, base.ErrFormatTooNew) {
				t.Errorf("%s with tag %d: %v, want ErrFormatTooNew", o.kind, tag, err)
			}
		}
		for what, field := range map[string][]byte{
			"cut content": {21, 4, 'x'}, "cut length": {21}, "cut tag": {0x80}, "long length": {21, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		} {
			_, err := o.decode(o.name, remotetest.ExampleStore, with(field...))
			if err == nil || errors.Is(err, base.ErrFormatTooNew) {
				t.Errorf("%s with a field with a %s: %v", o.kind, what, err)
			}
		}
	}
}

// TestFormat_RepeatedFields adds each field of an object to it once more. Only lists may have two.
func TestFormat_RepeatedFields(t *testing.T) {
	fixed := map[string]int{"step": leastStep - SumSize, "state": leastState - SumSize, "pin": leastState - SumSize}
	for _, o := range examples() {
		begin, ok := fixed[o.kind]
		if !ok {
			continue
		}
		good := o.bytes(t)
		all := good[begin : len(good)-SumSize]
		for rest := all; len(rest) > 0; {
			d := fields.Decoder{Src: rest}
			tag := d.Uvarint()
			content := d.Next(d.Uvarint())
			mustNil(t, d.Err)
			rest = d.Src
			b := resealed(append(fields.Append(bytes.Clone(good[:len(good)-SumSize]), tag, content), 0, 0, 0, 0))
			if _, err := o.decode(o.name, remotetest.ExampleStore, b); err == nil {
				t.Errorf("%s with two fields %d is accepted", o.kind, tag)
			}
			longer := resealed(append(fields.Append(bytes.Clone(good[:begin]), tag, append(bytes.Clone(content), 0)), 0, 0, 0, 0))
			if _, err := o.decode(o.name, remotetest.ExampleStore, longer); err == nil {
				t.Errorf("%s with one field %d, a byte too long, is accepted", o.kind, tag)
			}
		}
	}
}

// refusals is what must be refused of one kind of object: what is changed, and how.
type refusals[T any] map[string]func(o *T)

// tryRefusals makes each change to an example. It must be refused when it is encoded.
func tryRefusals[T any](t *testing.T, example func() *T, encode func(*T) ([]byte, error), changes refusals[T]) {
	t.Helper()
	for what, change := range changes {
		o := example()
		change(o)
		if b, err := encode(o); err == nil || len(b) > 0 {
			t.Errorf("%T with %s is encoded: %x, %v", o, what, b, err)
		} else if !strings.Contains(err.Error(), "remote: encode ") {
			t.Errorf("%T with %s: %v does not say which object", o, what, err)
		}
	}
	if _, err := encode(example()); err != nil {
		t.Errorf("%T without a change: %v", example(), err)
	}
}

// TestFormat_FieldsAreDocumented holds the table of fields in docs/REMOTE.md against the decoders:
// each knows the tags that the table gives it, and no others.
func TestFormat_FieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/REMOTE.md")
	mustNil(t, err)
	documented := map[string]string{} // by tag: the objects that have the field
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \|`).FindAllStringSubmatch(string(text), -1) {
		if strings.ContainsAny(row[2], "0123456789") {
			continue // a row of offsets and sizes
		}
		documented[row[1]] = row[2]
	}
	for tag := range uint64(64) {
		for kind, field := range map[string]func(uint64, *fields.Decoder) bool{
			"step": new(Step).decodeField, "state": new(State).decodeField, "pin": new(Pin).decodeField,
		} {
			says := documented[strconv.FormatUint(tag, 10)]
			if known, want := field(tag, new(fields.Decoder)), strings.Contains(says, kind); known != want {
				t.Errorf("a %s knows field %d: %v, but documented is %q", kind, tag, known, says)
			}
		}
	}
}

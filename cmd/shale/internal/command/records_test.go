package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/internal/testenv"
)

// hostileFields are texts that are hard for file formats.
var hostileFields = []string{
	"", " ", "a", "a b", "\t", "\n", "\r", "\r\n", "a\r", "a\nb", "\"", "\"\"", "\"a\"", "a\"b", "\\", "\\n", "\"\\x00\"", "\x00", "\x7f", "\xff", "a\xc3", "é",
	"\u2028", "\ufeff", "\ufeffa", "\ufffd", "😀", "<script>&'\"</script>", ",", "a,b", "#", "-", "@x", "0x6b", "--from", "null", "{}", "{\"key\":1}", "\x1b[31m",
	strings.Repeat("k", shale.MaxKeySize), strings.Repeat("\x01", shale.MaxKeySize), strings.Repeat("\"", 300),
}

// hostileField returns a field that consists of pieces of hostileFields.
func hostileField(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return hostileFields[r.IntN(len(hostileFields))]
	}
	var b strings.Builder
	for range r.IntN(5) {
		if f := hostileFields[r.IntN(len(hostileFields))]; len(f) < 100 {
			b.WriteString(f)
		} else {
			b.WriteByte(byte(r.Uint32()))
		}
	}
	return b.String()
}

// Import of an export gives the same store, whatever bytes are in it, in every
// format and both ways to write.
func TestImportOfExport(t *testing.T) {
	testenv.SkipRace(t)
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for _, format := range fileFormats {
		dir := t.TempDir()
		from, file := filepath.Join(dir, "from"), filepath.Join(dir, "file")
		db, err := shale.Open(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b shale.Batch
		put := func(key, value string) {
			if format == formatLines {
				value = "\"all\t\n\xff"
			}
			if err := b.Put([]byte(key), []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range hostileFields {
			put(f, f)
		}
		for range 400 {
			put(hostileField(r), hostileField(r))
		}
		if err := errors.Join(db.Write(context.Background(), &b), db.Close()); err != nil {
			t.Fatal(err)
		}
		want := cmdtest.Contents(t, from)
		args := []string{"--format", string(format)}
		if out, notes, st := call("", slices.Concat([]string{"-C", from, "export", file}, args)...); st != Found || notes != "" {
			t.Fatalf("%s: export: status %d, %s%s", format, st, out, notes)
		}
		if format == formatLines {
			args = append(args, "--value", `"\"all\t\n\xff"`)
		}
		for i, more := range [][]string{nil, {"--sorted"}} {
			into := filepath.Join(dir, fmt.Sprint("into", i))
			if out, notes, st := call("", slices.Concat([]string{"-C", into, "import", file}, args, more)...); st != Found || notes != "made a new store in "+into+"\n" {
				t.Fatalf("%s: import %s: status %d, %s%s", format, more, st, out, notes)
			}
			if got := cmdtest.Contents(t, into); !maps.Equal(got, want) {
				for key, value := range want {
					if g, ok := got[key]; !ok || g != value {
						t.Errorf("%s %s: %.80q is %.80q, %v; want %.80q", format, more, key, g, ok, value)
					}
				}
				t.Fatalf("%s %s: %d entries, want %d", format, more, len(got), len(want))
			}
		}
		through, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if out, _, _ := call("", slices.Concat([]string{"-C", from, "export", "-"}, args[:2])...); out != string(through) {
			t.Errorf("%s: export to standard output differs from the file", format)
		}
		t.Logf("%s: %d entries, %d bytes", format, len(want), len(through))
	}
}

// Any bytes are read to the end without a panic. Records that were read and written again are
// read as the same records.
func FuzzRecords(f *testing.F) {
	for _, s := range []string{"a\tb\n", "\"a\\n\"\t\"b\"\n\"\"\n", "a,b\n\"c\"\"\",d\n", `{"key":"a","value64":"AAA="}`, "\xef\xbb\xbfa\r\n", "\"\\u00e9\n", "k"} {
		for i := range 8 {
			f.Add([]byte(s), byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, how byte) {
		form := recordForm{format: fileFormats[how%4], plain: how&4 != 0}
		in, err := newRecordReader(bufio.NewReaderSize(bytes.NewReader(data), 16), form, 0)
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := newRecordWriter(&out, form.format)
		var want []string
		for range len(data) + 2 {
			rec, err := in.next()
			var wrong *badLine
			if errors.As(err, &wrong) {
				continue
			}
			if err != nil {
				break
			}
			want = append(want, string(rec.key), string(rec.value))
			if err := w.write(rec.key, rec.value, rec.expires); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		form.plain = false
		in, err = newRecordReader(bufio.NewReader(&out), form, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(want); i += 2 {
			rec, err := in.next()
			if string(rec.key) != want[i] || string(rec.value) != want[i+1] || err != nil {
				t.Fatalf("%q %q is read again as %q %q, %v", want[i], want[i+1], rec.key, rec.value, err)
			}
		}
		if rec, err := in.next(); err != io.EOF {
			t.Fatalf("behind the last: %q, %v", rec.key, err)
		}
	})
}

package benchmark

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Dataset has the keys that a run loads and those that it asks for.
type Dataset struct {
	Name    string
	Present []Record // loaded
	Absent  [][]byte // asked for, never loaded; all lie inside the range of Present
	Outside int      // absent keys left out because they lie outside that range
	Both    int      // absent keys left out because they are loaded too
}

// A Record is a key with the value to load.
type Record struct{ Key, Value []byte }

// RawBytes is the size of all keys and values.
func RawBytes(records []Record) (n int64) {
	for _, r := range records {
		n += int64(len(r.Key) + len(r.Value))
	}
	return n
}

// ReadDataset reads the lists in two files, a key a line. With no names it reads
// the Go sources.
func ReadDataset(keys, absent string) (*Dataset, error) {
	switch {
	case keys == "" && absent == "":
		return goLines()
	case keys == "" || absent == "":
		return nil, errors.New("-keys and -absent go together")
	}
	return fileLines(keys, absent)
}

// goLines makes a dataset of the distinct lines of the Go source files under
// GOROOT/src. A hash chooses the half that is loaded; the value of such a line is the
// place where it was first seen. The other half is asked for.
func goLines() (*Dataset, error) {
	root, err := goRoot()
	if err != nil {
		return nil, err
	}
	src := filepath.Join(root, "src")
	d := &Dataset{Name: "the distinct lines of the Go source files in GOROOT/src"}
	seen := make(map[string]struct{}, 1<<20)
	err = filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		return eachLine(path, func(number int, line []byte) {
			if _, ok := seen[string(line)]; ok {
				return
			}
			seen[string(line)] = struct{}{}
			key := bytes.Clone(line)
			if coin(key) {
				d.Present = append(d.Present, Record{key, fmt.Appendf(nil, "%s:%d", name, number)})
			} else {
				d.Absent = append(d.Absent, key)
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the Go sources: %w", err)
	}
	return d, d.Check()
}

// goRoot asks the go command for GOROOT.
func goRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find GOROOT: %w (give -keys and -absent instead)", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// coin chooses half of the keys by a hash that no filter uses.
func coin(key []byte) bool {
	h := fnv.New64a()
	h.Write(key)
	return h.Sum64()*0x9e3779b97f4a7c15>>63 == 0 // a single bit of FNV is not one for exactly half of the keys
}

// fileLines makes a dataset of two files with a key a line. Keys that are in both are
// loaded and not asked for.
func fileLines(keys, absent string) (*Dataset, error) {
	d := &Dataset{Name: filepath.Base(keys) + " loaded, " + filepath.Base(absent) + " asked for"}
	const loaded, asked = 1, 2
	seen := make(map[string]int)
	err := eachLine(keys, func(number int, line []byte) {
		if seen[string(line)] == 0 {
			seen[string(line)] = loaded
			d.Present = append(d.Present, Record{bytes.Clone(line), fmt.Appendf(nil, "line %d", number)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	err = eachLine(absent, func(_ int, line []byte) {
		switch seen[string(line)] {
		case 0:
			d.Absent = append(d.Absent, bytes.Clone(line))
		case loaded:
			d.Both++
		}
		seen[string(line)] = asked
	})
	if err != nil {
		return nil, fmt.Errorf("-absent: %w", err)
	}
	return d, d.Check()
}

// Check drops the absent keys outside the range of the present ones, as a lookup of
// these needs no filter. It returns an error if nothing is left to measure.
func (d *Dataset) Check() error {
	if len(d.Present) == 0 {
		return errors.New("there are no keys to load")
	}
	least, greatest := d.Present[0].Key, d.Present[0].Key
	for _, r := range d.Present {
		if bytes.Compare(r.Key, least) < 0 {
			least = r.Key
		}
		if bytes.Compare(r.Key, greatest) > 0 {
			greatest = r.Key
		}
	}
	inside := d.Absent[:0]
	for _, k := range d.Absent {
		if bytes.Compare(least, k) < 0 && bytes.Compare(k, greatest) < 0 {
			inside = append(inside, k)
		}
	}
	d.Outside = len(d.Absent) - len(inside)
	d.Absent = inside
	if len(d.Absent) == 0 {
		return fmt.Errorf("no key is left to ask for: %d are loaded too, %d lie outside the range of the loaded ones", d.Both, d.Outside)
	}
	return nil
}

// eachLine calls fn for each line of a file that is not empty and not longer than
// maxKey. Lines are numbered from 1.
func eachLine(path string, fn func(number int, line []byte)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 && len(line) <= maxKey {
			fn(number, line)
		}
	}
	return nil
}

// maxKey leaves out the few lines that are generated tables and not text.
const maxKey = 4096

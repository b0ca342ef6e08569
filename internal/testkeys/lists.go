package testkeys

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Listed returns the kinds that are lists of real keys, or none on a machine without the lists.
func Listed(t testing.TB) []Kind {
	t.Helper()
	dir, ok := testenv.FindShared(t, "data")
	if !ok {
		t.Log("without lists of real keys")
		return nil
	}
	lists.Do(func() { lists.kinds, lists.err = read(dir) })
	if lists.err != nil {
		t.Fatal(lists.err)
	}
	return slices.Clip(lists.kinds)
}

// lists is what Listed has read.
var lists struct {
	sync.Once
	kinds []Kind
	err   error
}

// read reads the lists. The error says which file is missing.
func read(dir string) ([]Kind, error) {
	var all [5][][]byte
	for i, list := range []struct {
		name string
		step int // every step-th line is taken: a part of a long list is enough
	}{{"malicious-hosts", 25}, {"benign-hosts", 8}, {"malicious-urls", 1}, {"words-en", 8}, {"top-domains-10k", 1}} {
		b, err := os.ReadFile(filepath.Join(dir, list.name+".txt"))
		if err != nil {
			return nil, err
		}
		all[i] = lines(b, list.step)
	}
	kinds := []Kind{{Name: "hosts", present: all[0], absent: without(all[1], all[0])}}
	for i, name := range []string{"URLs", "words", "domains"} {
		k := Kind{Name: name}
		for j, line := range all[2+i] {
			if j%2 == 0 {
				k.present = append(k.present, line)
			} else {
				k.absent = append(k.absent, line)
			}
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// lines returns every step-th line of b, without repetitions.
func lines(b []byte, step int) [][]byte {
	seen := make(map[string]bool)
	var all [][]byte
	i := 0
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if i++; i%step == 0 && !seen[string(line)] {
			seen[string(line)] = true
			all = append(all, line)
		}
	}
	return all
}

// without returns the keys that are not in others.
func without(keys, others [][]byte) [][]byte {
	there := make(map[string]bool, len(others))
	for _, k := range others {
		there[string(k)] = true
	}
	var left [][]byte
	for _, k := range keys {
		if !there[string(k)] {
			left = append(left, k)
		}
	}
	return left
}

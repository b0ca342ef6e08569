package testkeys

import (
	"bytes"
	"os"
	"path/filepath"
)

// Listed returns the kinds that are lists of real keys, from files in dir. The
// error says which file is missing.
func Listed(dir string) ([]Kind, error) {
	var lists [5][][]byte
	for i, list := range []struct {
		name string
		step int // every step-th line is taken: a part of a long list is enough
	}{{"malicious-hosts", 25}, {"benign-hosts", 8}, {"malicious-urls", 1}, {"words-en", 8}, {"top-domains-10k", 1}} {
		b, err := os.ReadFile(filepath.Join(dir, list.name+".txt"))
		if err != nil {
			return nil, err
		}
		lists[i] = lines(b, list.step)
	}
	kinds := []Kind{{Name: "hosts", present: lists[0], absent: without(lists[1], lists[0])}}
	for i, name := range []string{"URLs", "words", "domains"} {
		k := Kind{Name: name}
		for j, line := range lists[2+i] {
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

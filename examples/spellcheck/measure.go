package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	"github.com/shaledb/shale/bloom"
)

// measure misspells each word of the list once. It prints how many misspellings pass the
// filter, how good the suggestions for them are, and the memory of the filter and of a map
// of the words. It leaves out misspellings that are words.
func measure(ctx context.Context, f *bloom.Static, l *list, out io.Writer) error {
	before := heap()
	words := make(map[string]struct{})
	for word, err := range l.all() {
		if err != nil {
			return err
		}
		words[string(word)] = struct{}{}
	}
	memory := heap() - before
	rng := rand.New(rand.NewPCG(1, 2))
	asked, passed := 0, 0
	var tried, candidates, passing, right, meant int
	for word, err := range l.all() {
		if err != nil {
			return err
		}
		wrong := misspell(rng, word)
		if _, ok := words[string(wrong)]; ok {
			continue
		}
		if asked++; f.MayContainHash(f.Hasher().Hash(wrong)) {
			passed++
		}
		if asked%200 != 0 {
			continue
		}
		tried++
		for candidate := range edits(wrong) {
			candidates++
			if !f.MayContainHash(f.Hasher().Hash(candidate)) {
				continue
			}
			passing++
			if _, ok := words[string(candidate)]; ok {
				right++
			}
			if string(candidate) == string(word) {
				meant++
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "memory: %d words in a filter of %d bytes, in a map of %d: %.0f times as much\n",
		len(words), f.SizeBytes(), memory, float64(memory)/float64(f.SizeBytes()))
	fmt.Fprintf(out, "misspellings: %d, %d passed: %.3f %%, predicted %.3f %%\n",
		asked, passed, 100*float64(passed)/float64(max(asked, 1)), 100*f.FPR())
	per := 1 / float64(max(tried, 1))
	fmt.Fprintf(out, "suggestions: of %.0f candidates for a misspelling %.1f pass, %.1f by chance (predicted %.1f); the right word is among them for %.1f %%\n",
		per*float64(candidates), per*float64(passing), per*float64(passing-right), per*float64(candidates-right)*f.FPR(), 100*per*float64(meant))
	fmt.Fprintf(out, "The filter saves %.0f %% of the map's memory.\n", 100-100*float64(f.SizeBytes())/float64(memory))
	runtime.KeepAlive(words)
	return nil
}

// heap returns the bytes of all objects on the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// misspell returns a copy of the word with one letter changed, removed or doubled, or with
// two letters swapped. If the two are equal, the result is the word itself.
func misspell(rng *rand.Rand, word []byte) []byte {
	i := rng.IntN(len(word))
	wrong := append(make([]byte, 0, len(word)+1), word...)
	switch kind := rng.IntN(4); {
	case kind == 0 && len(word) > 1:
		return append(wrong[:i], wrong[i+1:]...)
	case kind == 1:
		return append(append(wrong[:i], word[i]), word[i:]...)
	case kind == 2 && len(word) > 1:
		j := (i + 1) % len(word)
		if j > 0 {
			wrong[i], wrong[j] = word[j], word[i]
			return wrong
		}
	}
	wrong[i] = 'a' + (wrong[i]-'a'+1+byte(rng.IntN(25)))%26
	return wrong
}

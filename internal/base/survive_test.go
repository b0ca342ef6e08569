package base

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestSurvive(t *testing.T) {
	own := errors.New("own")
	for want, fn := range map[string]func() error{
		"":                                 func() error { return nil },
		"own":                              func() error { return own },
		"shale: panic: help":               func() error { panic("help") },
		"shale: panic: own":                func() error { panic(own) },
		"shale: runtime.Goexit was called": func() error { runtime.Goexit(); return nil },
	} {
		err := Survive(fn)
		got := ""
		if err != nil {
			got = err.Error()
		}
		var p *PanicError
		if got != want || errors.As(err, &p) != strings.HasPrefix(want, "shale") || errors.Is(err, own) != (want == "own") {
			t.Errorf("%v, want %q", err, want)
		}
		if p != nil && p.Value != nil && !strings.Contains(string(p.Stack), "TestSurvive") {
			t.Errorf("the stack is not that of the panic:\n%s", p.Stack)
		}
	}
}

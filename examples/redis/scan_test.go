package main

import (
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/resp/resptest"
)

// A SCAN gives each name that is there all the time once, while others come and go.
func TestScan_Changes(t *testing.T) {
	resptest.ScanWhileChanging(t, direct(t, settings(t)).say)
}

// A cursor that the server does not remember is refused.
func TestScan_UnknownCursor(t *testing.T) {
	if got := direct(t, settings(t)).say("SCAN", "17"); !strings.HasPrefix(got, "-ERR invalid cursor: the server remembers") {
		t.Errorf("SCAN of an unknown cursor = %q", got)
	}
}

package main

import (
	"runtime/debug"

	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// versions are those of the modules that this program was built with.
func versions(names []string) map[string]string {
	found := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, name := range names {
		kind, err := stores.Find(name)
		if err != nil || kind.Module == "" {
			continue // the installed library
		}
		for _, m := range info.Deps {
			switch {
			case m.Path != kind.Module:
			case m.Replace != nil:
				found[name] = "of this repository"
			default:
				found[name] = m.Version
			}
		}
	}
	return found
}

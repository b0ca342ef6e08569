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
			continue
		}
		for _, m := range info.Deps {
			if m.Path == kind.Module {
				found[name] = m.Version
			}
		}
	}
	return found
}

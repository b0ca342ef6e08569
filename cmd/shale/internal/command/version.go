package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/manifest"
)

// showVersion prints the version of this program, and of the files that it writes.
func (s *Session) showVersion() error {
	version, commit := built()
	g := output.NewGrid("what", "version")
	g.Row("shale", version)
	g.Row("commit", commit)
	g.Row("Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	g.Row("files of a store", fmt.Sprint(manifest.FormatVersion))
	return s.Show(g)
}

// built returns the version and the commit from which the program was built.
//
// A program that was built without version control says unknown. "And changes" warns that the
// commit alone does not make this program again.
func built() (version, commit string) {
	version, commit = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			commit += ", and changes"
		}
	}
	return version, commit
}

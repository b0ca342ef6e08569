package s3test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// A source is a program that is built from its module.
type source struct {
	name, module, pkg, version string
	replace                    string // lines of the module's go.mod that replace others
}

// builds keeps goroutines of one process from building twice.
var builds sync.Mutex

// path returns where the program is, or will be. The name has the versions of the server and of Go, so a change of either
// builds another program.
func (s source) path() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "shale-test", fmt.Sprintf("%s-%s-%s", s.name, s.version, runtime.Version())), err
}

// build returns the path of the program. It builds it unless that was done before.
func (s source) build() (string, error) {
	builds.Lock()
	defer builds.Unlock()
	program, err := s.path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	dir := filepath.Dir(program)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Another process may do the same, so the program gets its name when it is whole.
	into, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(into) // what is left of it is of no use
	// go install refuses a program whose module replaces others. A module that needs the program's and replaces the same
	// ones builds it as its authors do.
	need := fmt.Sprintf("module build\n\ngo %s\n\nrequire %s %s\n\n%s", runtime.Version()[2:], s.module, s.version, s.replace)
	if err := os.WriteFile(filepath.Join(into, "go.mod"), []byte(need), 0o644); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	built := filepath.Join(into, s.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-buildvcs=false", "-o", built, s.pkg)
	cmd.Dir, cmd.Env = into, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s %s: %w: %.500s", s.name, s.version, err, out)
	}
	return program, os.Rename(built, program)
}

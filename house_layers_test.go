package shale

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers has the layer of every package (docs/ARCHITECTURE.md). A package imports only packages of
// lower layers. onlyImports limits some packages further.
var layers = map[string]int{
	// The command: a module of its own.
	"cmd/shale":                  11,
	"cmd/shale/internal/shell":   10,
	"cmd/shale/internal/command": 9,
	"cmd/shale/internal/backup":  7,
	"cmd/shale/internal/output":  7,
	"cmd/shale/internal/cmdtest": 7, // for tests only

	"repair":             7,
	"internal/benchmark": 7,
	"bench":              8,
	"bench/scale":        8,
	"debug":              8,
	"internal/monitor":   7,
	"typed":              7,
	"test/harness":       7,
	"test/soak":          8,
	"":                   6,
	"internal/residency": 4,
	"internal/scheduler": 4,
	"internal/commit":    2,
	"internal/logset":    3,
	"internal/tree":      3,
	"internal/memqueue":  4,
	"compaction":         3,
	"manifest":           2,
	"sstable":            2,
	"memtable":           1,
	"wal":                1,
	"bundle":             1,
	"filterplan":         1,
	"internal/filecache": 1,
	"internal/guard":     1,
	"internal/health":    1,
	"internal/txn":       1,
	"internal/lifetime":  1,
	"internal/changes":   1,
	"internal/iter":      1,
	"bloom":              0,

	// Filters of other programs, and hash functions for those who need them.
	"bloom/sketch":               1,
	"bloom/compat/bip37":         1,
	"bloom/compat/bitsandblooms": 7, // heavy: encoding/json
	"bloom/compat/guava":         1,
	"bloom/hashes":               1,
	"bloom/compat/parquet":       1,
	"bloom/compat/redisbloom":    1,

	// What the filters share.
	"bloom/internal/bitarray":   -1,
	"bloom/internal/form":       -2,
	"bloom/internal/filtertest": -1, // for tests only

	// Many questions to filters at once.
	"bloom/internal/lines": -1,

	// Stores in buckets: a module of its own.
	"remote/buckettest":          10,
	"remote/remotedebug":         10,
	"remote":                     9,
	"remote/internal/restore":    8,
	"remote/internal/collect":    8,
	"remote/internal/localdir":   7,
	"remote/internal/chain":      7,
	"remote/internal/tablefs":    6,
	"remote/internal/buckets":    5,
	"remote/internal/object":     4,
	"remote/internal/counted":    5,
	"remote/internal/cost":       4,
	"remote/internal/bucket":     3,
	"remote/internal/remotetest": 4, // for tests only

	"internal/treepicture": 0,

	"vfs":            0,
	"vfs/faultfs":    1,
	"vfs/crypt":      1,
	"internal/cache": 0,

	// What manifests and the objects of buckets consist of.
	"internal/fields":    0,
	"internal/lockorder": 0,
	"internal/signals":   0,

	"internal/base": -1,

	// Memory outside the Go heap.
	"internal/offheap": -1,

	// Memory that the processor should load.
	"internal/prefetch": -1,

	// Keys by their first bytes.
	"internal/keys": -1,

	// Range deletes, as sets.
	"internal/spans": 0,

	// Small errors in bytes with a checksum.
	"internal/syndrome": -1,

	// Drawings as SVG, which pictures of the tree are made of.
	"internal/svg": -1,

	// Pauses between two steps, for tests.
	"internal/pauses":       7,
	"internal/pauses/pause": -1,

	// Words in and out of the command and of its pages.
	"internal/quoting": -1,

	// Files that are durable.
	"internal/durable": 1,

	// Files that commands write.
	"internal/outfile": 1,

	// For tests only.
	"internal/testkeys":    -1,
	"internal/fuzzing":     -1,
	"internal/smalldisk":   1,
	"internal/svg/svgtest": -1,
	"internal/testenv":     -2,
	"internal/testrun":     7,
}

// onlyImports are the packages of the store that some packages are limited to.
// Most of them are useful without the store, and import nothing of it or only the
// filters. Package filterplan decides about plain values.
var onlyImports = map[string][]string{
	"bloom": {"bloom/internal/bitarray", "bloom/internal/form", "bloom/internal/lines"}, "bloom/internal/bitarray": {"bloom/internal/form"}, "bloom/internal/form": nil,
	"bloom/internal/lines": {"bloom/internal/form"},
	"bloom/sketch":         {"bloom", "bloom/internal/bitarray", "bloom/internal/form"},
	"bloom/compat/bip37":   {"bloom", "bloom/internal/form"}, "bloom/compat/bitsandblooms": {"bloom", "bloom/internal/form"}, "bloom/compat/guava": {"bloom", "bloom/internal/form"},
	"bloom/compat/parquet": {"bloom", "bloom/internal/form", "bloom/internal/lines"}, "bloom/compat/redisbloom": {"bloom", "bloom/internal/form"}, "bloom/hashes": {"bloom", "bloom/internal/form"}, "vfs": nil, "vfs/faultfs": {"vfs"}, "vfs/crypt": {"vfs"}, "bundle": {"bloom", "internal/keys"},
	"filterplan": {"bloom", "internal/base"},
}

// forTests are packages for tests: no program or library of ours imports them.
var forTests = []string{
	"bloom/internal/filtertest", "cmd/shale/internal/cmdtest", "test/harness", "test/soak",
	"internal/fuzzing", "internal/pauses", "internal/pauses/pause", "internal/smalldisk", "internal/svg/svgtest", "internal/testenv", "internal/testkeys", "internal/testrun", "remote/internal/remotetest",
}

// heavy are packages that the root must not link. The last ones are the command's.
var heavy = []string{
	"net/http", "expvar", "encoding/json",
	"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/peterh/liner",
}

const module = "github.com/shaledb/shale"

// Imports point down, as layers says, and packages import nothing that is too heavy for them.
func TestLayers(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(path) && path != "remote" && path != "cmd") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		checkImports(t, filepath.ToSlash(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isModule reports whether dir is a module of its own.
func isModule(dir string) bool {
	m, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return err == nil && len(m) > 0
}

func checkImports(t *testing.T, path string) {
	t.Helper()
	from := ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		from = path[:i]
	}
	layer, known := layerOf(from)
	if !known {
		t.Errorf("%s: package %q has no layer", path, from)
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		for _, h := range heavy {
			if name == h && layer <= 6 {
				t.Errorf("%s imports %s, which is too heavy for a library", path, h)
			}
		}
		to, ours := strings.CutPrefix(name, module)
		if !ours {
			continue
		}
		to = strings.TrimPrefix(to, "/")
		if slices.Contains(forTests, to) && !slices.Contains(forTests, from) {
			t.Errorf("%s imports %s, which is for tests", path, name)
		}
		if allowed, limited := onlyImports[from]; limited && !slices.Contains(allowed, to) {
			t.Errorf("%s imports %s; of this module, package %s may import %q only", path, name, from, allowed)
		}
		if below, ok := layerOf(to); !ok || below >= layer {
			t.Errorf("%s (layer %d) imports %s (layer %d): imports point down", path, layer, name, below)
		}
	}
}

func layerOf(dir string) (int, bool) {
	if l, ok := layers[dir]; ok {
		return l, true
	}
	if strings.HasPrefix(dir, "examples/") {
		return 7, true
	}
	return 0, false
}

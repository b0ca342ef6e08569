package outfile

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// Whatever operation fails when a file is replaced, the name has the old content or
// the new one, and nothing else is left. A crash at any time leaves one of the two
// as well, if both were synced.
func TestReplace_FaultsAndCrashes(t *testing.T) {
	content := func(fs vfs.FS) string {
		f, err := fs.Open("dir/file")
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		size, err := f.Size()
		b := make([]byte, size)
		if n, rerr := f.ReadAt(b, 0); err != nil || n < len(b) {
			return errors.Join(err, rerr).Error()
		}
		return string(b)
	}
	replace := func(fs vfs.FS, text string) error {
		_, err := Replace(fs, "dir/file", func(w io.Writer) (int, error) { return io.WriteString(w, text) })
		return err
	}
	errDevice, seed := errors.New("device"), rand.Uint64()
	for failAt := 0; ; failAt++ {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("dir"); err != nil {
			t.Fatal(err)
		}
		if err := replace(mem, "old"); err != nil {
			t.Fatal(err)
		}
		ops := 0
		faults := faultfs.New(mem, func(vfs.Op, string, int64) error {
			if ops++; ops-1 == failAt {
				return errDevice
			}
			return nil
		})
		err := replace(faults, "new")
		if ops <= failAt {
			if err != nil || content(mem) != "new" || failAt < 5 {
				t.Errorf("%d operations without a fault: %v, %q", ops, err, content(mem))
			}
			return
		}
		if !errors.Is(err, errDevice) {
			t.Errorf("operation %d fails, the error is %v", failAt, err)
		}
		for _, config := range vfs.CrashConfigs(seed) {
			if got := content(mem.Crash(config)); got != "old" && got != "new" {
				t.Errorf("operation %d fails, then a crash, %v: %q", failAt, config, got)
			}
		}
		names, err := mem.List("dir")
		if got := content(mem); got != "old" && got != "new" || err != nil || !slices.Equal(names, []string{"file"}) {
			t.Errorf("operation %d fails: %q, %v, %v", failAt, got, names, err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A file that is replaced keeps its permissions. A symbolic link is followed, also
// to a file that does not exist.
func TestReplace_PermissionsAndLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits, and symbolic links need a privilege")
	}
	dir := t.TempDir()
	private, fresh := filepath.Join(dir, "private"), filepath.Join(dir, "fresh")
	sub := filepath.Join(dir, "deep", "sub")
	link, dangling, through := filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "through")
	err := errors.Join(os.WriteFile(private, []byte("old"), 0o600), os.Chmod(private, 0o640), os.MkdirAll(sub, 0o700),
		os.Symlink("private", link), os.Symlink(fresh, dangling), os.Symlink(sub, through))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, is string }{
		{private, private}, {link, private}, {dangling, fresh}, {filepath.Join(through, "file"), filepath.Join(sub, "file")},
		{through + "/../file", filepath.Join(dir, "deep", "file")},
	} {
		if err := ReplaceBytes(c.name, []byte(c.name)); err != nil {
			t.Error(err)
		}
		if got := read(t, c.is); got != c.name {
			t.Errorf("after writing %s, %s has %q", c.name, c.is, got)
		}
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("a file of mode 640 has become %v, %v", info.Mode(), err)
	}
	for _, name := range []string{link, dangling} {
		if info, err := os.Lstat(name); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is a link no more: %v, %v", name, info.Mode(), err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// Files that cannot be replaced are written into, and keep their type.
func TestReplace_Device(t *testing.T) {
	if err := ReplaceBytes(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
}

// Files of a store are known by their names and their folder; a folder without a
// store may have files with such names.
func TestPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		there string // files in the folder
		name  string
		fine  bool
	}{
		{"CURRENT LOCK MANIFEST-000001", "CURRENT", false},
		{"CURRENT LOCK MANIFEST-000001", "LOCK", false},
		{"CURRENT LOCK MANIFEST-000001", "MANIFEST-000002", false},
		{"CURRENT LOCK MANIFEST-000001", "000002.sst", false},
		{"CURRENT LOCK MANIFEST-000001", "000002.flt", false},
		{"CURRENT LOCK MANIFEST-000001", "out.tsv", true},
		{"CURRENT LOCK MANIFEST-000001", "2.sst", true},
		{"000007.sst", "000008.sst", false}, // it lost CURRENT, and can be repaired
		{"000007.wal", "CURRENT", false},
		{"20260101.flt", "20260102.flt", true},
		{"20260101.flt", "20260101.flt", true},
		{"", "CURRENT", true},
		{"", "000007.sst", true},
	} {
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(c.there) {
			if err := os.WriteFile(filepath.Join(sub, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err = Path(filepath.Join(sub, c.name))
		var refused *storeFileError
		if got := !errors.As(err, &refused); got != c.fine {
			t.Errorf("%s beside %q: %v", c.name, c.there, err)
		}
	}
}

// No folder is made in the folder of a store.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	err := errors.Join(os.Mkdir(store, 0o700), os.WriteFile(filepath.Join(store, "CURRENT"), nil, 0o600), os.Mkdir(filepath.Join(store, "own"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for name, fine := range map[string]bool{"new": true, "store": true, "new/sub": true, "store/new": false, "store/new/sub": false, "store/own/new": true} {
		if err := Folder(filepath.Join(dir, name)); (err == nil) != fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(store)
	if err := Folder("new"); err == nil {
		t.Error("a folder may be made in the store that is the current folder")
	}
}

// A second name of a file of a store, in its folder, is that file.
func TestPath_SecondName(t *testing.T) {
	dir := t.TempDir()
	current, second := filepath.Join(dir, "CURRENT"), filepath.Join(dir, "second")
	if err := errors.Join(os.WriteFile(current, nil, 0o600), os.Link(current, second)); err != nil {
		t.Skip(err)
	}
	if _, err := Path(second); err == nil {
		t.Errorf("%s may be written", second)
	}
}

// The file that a command's own output goes to is not replaced under it.
func TestPath_StandardOutput(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := os.Stdout
	defer func() { os.Stdout = before }()
	os.Stdout = f
	if _, err := Path(name); err == nil {
		t.Error("the standard output may be replaced")
	}
}

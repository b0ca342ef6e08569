package manifest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// CURRENT is a file of one line that names the manifest in force. These constants are part of
// the file format and never change.
const (
	currentMagic   = "shale"
	currentVersion = 1

	// maxCurrent is the largest size of CURRENT, in bytes, that is read. Every valid line is
	// shorter.
	maxCurrent = 256
)

// A current is the decoded content of CURRENT.
type current struct {
	manifest base.FileNum
	durable  int64  // bytes of the manifest that were durable when the line was written; a record ends there
	line     string // as it was read; not part of what it says
}

// checkRecord returns an error if c.durable is within the record from offset to end. It must
// be the end of a record. If it is not, CURRENT and the manifest do not belong together.
func (c current) checkRecord(offset, end int64) error {
	if c.durable <= offset || c.durable >= end {
		return nil
	}
	return base.Corruption(base.ManifestName(c.manifest), offset, "manifest record",
		fmt.Errorf("it goes up to %d, but CURRENT states a length of %d", end, c.durable))
}

// appendTo appends the line. Its fields are the magic, the version, the name of the manifest,
// its durable length and a checksum of all that.
func (c current) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "%s %d %s %d", currentMagic, currentVersion, base.ManifestName(c.manifest), c.durable)
	return fmt.Appendf(dst, " %08x\n", crc32.Checksum(dst[start:], castagnoli))
}

// decodeCurrent decodes the line. It accepts only what appendTo writes, byte for byte. The
// checksum comes before the version, so that a damaged version is not taken for a newer one.
func decodeCurrent(b []byte) (current, error) {
	line, ok := strings.CutSuffix(string(b), "\n")
	space := strings.LastIndexByte(line, ' ')
	if !ok || space < 0 {
		return current{}, errors.New("not a line of fields")
	}
	if sum := fmt.Sprintf("%08x", crc32.Checksum([]byte(line[:space]), castagnoli)); sum != line[space+1:] {
		return current{}, fmt.Errorf("checksum %s, want %q", sum, line[space+1:])
	}
	fields := strings.Split(line, " ")
	if fields[0] != currentMagic || len(fields) < 3 {
		return current{}, fmt.Errorf("magic %q, want %q", fields[0], currentMagic)
	}
	version, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil || version == 0 {
		return current{}, fmt.Errorf("version %q", fields[1])
	}
	if version > currentVersion {
		return current{}, fmt.Errorf("version %d: %w", version, base.ErrFormatTooNew)
	}
	// The checks up to here hold for newer versions too. The number of fields is that of
	// version 1.
	if len(fields) != 5 {
		return current{}, fmt.Errorf("%d fields, want 5", len(fields))
	}
	typ, num, ok := base.ParseFileName(fields[2])
	if !ok || typ != base.FileManifest {
		return current{}, fmt.Errorf("%q is not the name of a manifest", fields[2])
	}
	durable, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || durable < headerSize {
		return current{}, fmt.Errorf("length %q", fields[3])
	}
	c := current{manifest: num, durable: durable}
	// Numbers with leading zeros, for instance, have passed until here.
	if string(c.appendTo(nil)) != string(b) {
		return current{}, errors.New("numbers are not in their shortest form")
	}
	return c, nil
}

// readCurrent reads CURRENT. Its error wraps fs.ErrNotExist if there is no such file.
func readCurrent(fs vfs.FS, dir string) (current, error) {
	line, err := readLine(fs, dir)
	if err != nil {
		return current{}, err
	}
	return decodeLine(line)
}

// readLine returns what is in CURRENT. Its error is that of readCurrent.
func readLine(fs vfs.FS, dir string) ([]byte, error) {
	f, err := fs.Open(filepath.Join(dir, base.CurrentName))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	defer f.Close() // only read: nothing to lose
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("manifest: size of %s: %w", base.CurrentName, err)
	}
	if size > maxCurrent {
		var magic [len(vfs.EncryptedMagic)]byte
		if n, _ := f.ReadAt(magic[:], 0); string(magic[:n]) == vfs.EncryptedMagic { // with an error, too, it is no line
			return nil, fmt.Errorf("manifest: %s: %w", base.CurrentName, vfs.ErrEncrypted)
		}
		return nil, base.Corruption(base.CurrentName, -1, "name of the manifest", fmt.Errorf("%d bytes are too many", size))
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (err != io.EOF || n < len(b)) {
		return nil, fmt.Errorf("manifest: read %s: %w", base.CurrentName, err)
	}
	return b, nil
}

// decodeLine is decodeCurrent with errors that name the file.
func decodeLine(b []byte) (current, error) {
	c, err := decodeCurrent(b)
	switch {
	case errors.Is(err, base.ErrFormatTooNew):
		return current{}, fmt.Errorf("manifest: %s: %w", base.CurrentName, err)
	case err != nil:
		return current{}, base.Corruption(base.CurrentName, 0, "name of the manifest", err)
	}
	c.line = string(b)
	return c, nil
}

// writeCurrent replaces CURRENT in one step: a crash leaves the old line or the new one. It
// writes and syncs a temporary file, renames it to CURRENT, and syncs the directory.
//
// tried reports whether it came to the rename. After that, an error leaves unknown which line
// is in force. Requires: the manifest's content and name are durable, because a crash after
// the rename may leave the new line in force.
func writeCurrent(fs vfs.FS, dir string, c current) (tried bool, err error) {
	temp := tempPath(dir, c.manifest)
	if err := durable.Write(fs, temp, c.appendTo(nil)); err != nil {
		// err says what happened. If the temporary file stays, the next Open of the store
		// removes it.
		_ = fs.Remove(temp)
		return false, err
	}
	return installCurrent(fs, dir, c.manifest)
}

// prepareCurrent begins to write and sync the temporary file of writeCurrent. The caller receives
// the error, and removes the file if it does not call installCurrent.
func prepareCurrent(fs vfs.FS, dir string, c current) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- base.Survive(func() error { return durable.Write(fs, tempPath(dir, c.manifest), c.appendTo(nil)) })
	}()
	return done
}

// installCurrent is the second half of writeCurrent.
func installCurrent(fs vfs.FS, dir string, num base.FileNum) (tried bool, err error) {
	if err := fs.Rename(tempPath(dir, num), filepath.Join(dir, base.CurrentName)); err != nil {
		return true, err
	}
	return true, fs.SyncDir(dir)
}

func tempPath(dir string, num base.FileNum) string { return filepath.Join(dir, base.TempName(num)) }

// writeAll writes b to f. A short write is an error.
func writeAll(f vfs.File, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

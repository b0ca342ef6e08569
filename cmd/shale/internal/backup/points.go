package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// pointsName is the file of a line that says what counts, as a pointsFile.
const pointsName = "points.json"

// A pointsFile has the points of a line and a checksum, CRC-32C of their JSON without spaces.
type pointsFile struct {
	Points   []Point
	Checksum uint32
}

func newPointsFile(points []Point) (f pointsFile, err error) {
	b, err := json.Marshal(points)
	return pointsFile{points, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))}, err
}

// decodePoints returns the points in the bytes of a file.
func decodePoints(b []byte) ([]Point, error) {
	var f pointsFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, base.Corruption(pointsName, -1, "points", err)
	}
	switch want, err := newPointsFile(f.Points); {
	case err != nil || len(f.Points) == 0:
		return nil, base.Corruption(pointsName, -1, "points", errors.Join(err, errors.New("no base")))
	case f.Checksum != want.Checksum:
		return nil, base.Corruption(pointsName, -1, "points", fmt.Errorf("checksum %d, want %d", f.Checksum, want.Checksum))
	}
	return f.Points, nil
}

// A Point is how far a run had come. The first point of a line is its base.
type Point struct {
	Seq     uint64    // all commits up to this number are there
	Time    time.Time // when the run had read them
	Bytes   int64     // that the run has written, in tables or as the log of the increment
	Session uint64    // the session of the store that gave out the number, and its log with it; the base has no log
	Log     uint64
}

// A Line is a base with its increments.
type Line struct {
	Number uint64  // from 1 up
	Points []Point // the base, then the increments

	dir   string
	state *manifest.State // the base
}

// logs returns the folder of the increments.
func (l *Line) logs() string { return filepath.Join(l.dir, "increments") }

// now returns the time of a point: the next whole second, so that the time that is shown can be asked for.
func now() time.Time { return time.Now().UTC().Add(time.Second - 1).Truncate(time.Second) }

// First returns the sequence number of the base.
func (l *Line) First() uint64 { return l.Points[0].Seq }

// Last returns the sequence number of the newest commit.
func (l *Line) Last() uint64 { return l.last().Seq }

func (l *Line) last() Point { return l.Points[len(l.Points)-1] }

// add makes a run count.
func (l *Line) add(fsys vfs.FS, p Point) error {
	points := append(l.Points[:len(l.Points):len(l.Points)], p)
	file, err := newPointsFile(points)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	name := filepath.Join(l.dir, pointsName)
	if err := durable.Write(fsys, name+".tmp", append(b, '\n')); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	if err := fsys.SyncDir(l.dir); err != nil {
		return err
	}
	l.Points = points
	return nil
}

// Lines returns the lines in the folder, oldest first.
func Lines(fsys vfs.FS, folder string) (lines []*Line, err error) {
	lines, _, err = list(fsys, folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(lines) == 0 {
		err = fmt.Errorf("there is no backup in %s: %w", folder, fs.ErrNotExist)
	}
	return lines, err
}

// damaged returns err. If it is damage, it says what to do, and is none of a store any more.
func (l *Line) damaged(err error) error {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	return fmt.Errorf("%v\nThe backup in %s is damaged. An earlier moment may be whole: see --at. If you move that folder elsewhere, "+
		"the others can be restored, and the next backup begins a new base", err, l.dir)
}

// list is Lines that also returns the names of lines that a run has begun and not completed. A
// folder with other files is no folder for backups.
func list(fsys vfs.FS, folder string) (lines []*Line, begun []string, err error) {
	names, err := fsys.List(folder)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		var num, session uint64
		if name == base.LockName || name == "lost+found" {
			continue
		}
		if n, _ := fmt.Sscanf(name, "%06d-%016x", &num, &session); n != 2 || name != lineName(num, session) {
			return nil, nil, fmt.Errorf("%s has other files than backups, such as %s; name another folder", folder, name)
		}
		l := &Line{Number: num, dir: filepath.Join(folder, name)}
		b, err := readFile(fsys, filepath.Join(l.dir, pointsName))
		if errors.Is(err, fs.ErrNotExist) {
			logs, lerr := fsys.List(l.logs())
			switch {
			case lerr != nil && !errors.Is(lerr, fs.ErrNotExist):
				err = lerr
			case len(logs) == 0:
				begun = append(begun, name)
				continue
			default: // only a line that counts has increments
				err = base.Corruption(pointsName, -1, "points", errors.New("missing"))
			}
		}
		if err == nil {
			l.state, err = manifest.Load(fsys, l.dir) // which knows what is encrypted
			err = base.MissingIsDamage(err, base.CurrentName)
		}
		if err == nil {
			l.Points, err = decodePoints(b)
		}
		if err != nil {
			return nil, nil, l.damaged(fmt.Errorf("backup %s: %w", l.dir, err))
		}
		lines = append(lines, l)
	}
	return lines, begun, nil
}

func lineName(num, session uint64) string { return fmt.Sprintf("%06d-%016x", num, session) }

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

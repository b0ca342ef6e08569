package program

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/remote"
)

const (
	// backupFile is the file in a member's folder that has the name of its backups.
	backupFile = "BACKUP"

	// bucketPatience is how long the start of a backup may take. The member does not serve meanwhile.
	bucketPatience = 20 * time.Second

	// mostBuckets is how many buckets a state may have, one after the other.
	mostBuckets = 20
)

func (c *config) backupFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.backup, "backup", "", "keep this member's state in a `BUCKET` too: a folder, or s3://HOST[:PORT]/BUCKET/PREFIX")
	f.DurationVar(&c.retain, "backup-retain", 24*time.Hour, "how far back states can be restored")
}

// backups keeps the state of a member in a bucket, by package remote: the log each second, tables each minute.
//
// A member's state is a store in a folder state-K of its own. When the leader sends a snapshot, the member begins
// a new one, with another K. So each has a bucket of its own, PLACE/ID-RANDOM/state-K, which one writer owns and
// nobody else claims. RANDOM is drawn for a member's folder.
//
// The member goes before its backup: if the bucket does not answer when a state is opened, the state is opened
// without, and when it does not answer later, writes go on. Backup and member meet again at the next start. What was
// written in between may be such that the bucket refuses the folder then, as after a crash. Then the state gets
// another bucket, state-K-2 and so on.
type backups struct {
	at     place
	name   string
	retain time.Duration
	logf   func(string, ...any)

	mu    sync.Mutex
	store *remote.Store // of the state that is open; nil: it has no backup
	to    place         // its bucket
	err   error         // why there is none
}

// openBackups lets the member's state be opened with a backup, if there shall be one.
func (m *member) openBackups(o *cluster.Options) error {
	c := &m.config
	if c.backup == "" {
		return nil
	}
	at, err := parsePlace(c.backup)
	if err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	name, err := backupName(c.dir, c.id)
	if err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	m.backups = &backups{at: at, name: name, retain: c.retain, logf: m.logf, err: errors.New("it has not begun")}
	o.OpenStore = m.backups.open
	return nil
}

// backupName returns the name of a member's backups. It is drawn when a folder has its first one.
func backupName(dir, id string) (string, error) {
	file := filepath.Join(dir, backupFile)
	data, err := os.ReadFile(file)
	if name := strings.TrimSpace(string(data)); err == nil && strings.HasPrefix(name, id+"-") && !strings.ContainsAny(name, "/\\\n") {
		return name, nil
	} else if err == nil {
		return "", fmt.Errorf("%s should have the name of this member's backups, which begins with %s-: remove the file to begin a new backup", file, id)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := id + "-" + hex.EncodeToString(random[:])
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	return name, os.WriteFile(file, []byte(name+"\n"), 0o666)
}

// open opens a state's store, with a backup if that is possible.
func (b *backups) open(dir string, o *shale.Options) (*shale.DB, func() error, error) {
	state := filepath.Base(dir)
	to := b.at.sub(b.name, state)
	store, err := b.openRemote(dir, to, o)
	for n := 2; n <= mostBuckets && (errors.Is(err, remote.ErrFenced) || errors.Is(err, remote.ErrOtherStore)); n++ {
		b.logf("backup: %s is not used any more: %s", to, message(err))
		to = b.at.sub(b.name, fmt.Sprintf("%s-%d", state, n))
		store, err = b.openRemote(dir, to, o)
	}
	b.mu.Lock()
	b.store, b.to, b.err = store, to, err
	b.mu.Unlock()
	if err == nil {
		b.logf("backup to %s", to)
		return store.DB(), func() error { return b.close(store) }, nil
	}
	db, plainErr := shale.Open(dir, o)
	if plainErr != nil {
		return nil, nil, plainErr
	}
	b.logf("warning: there is no backup until the next start: %s", message(err))
	return db, db.Close, nil
}

func (b *backups) openRemote(dir string, to place, o *shale.Options) (*remote.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bucketPatience)
	defer cancel()
	bucket, err := to.open(ctx)
	if err != nil {
		return nil, err
	}
	return remote.Open(ctx, dir, bucket, &remote.Options{
		Store: *o, Retain: b.retain, MaxKept: -1, // the group must not wait for a bucket
		OnEvent: func(e remote.Event) {
			switch e.Kind {
			case remote.EventAway, remote.EventBackground:
				b.logf("warning: backup: %v: %s; it is tried again", e.Kind, message(e.Err))
			case remote.EventBack:
				b.logf("backup: %v after %v", e.Kind, e.Duration.Round(time.Second))
			case remote.EventFenced:
				b.logf("warning: backup: another program has taken over %s: %s", to, message(e.Err))
			}
		},
	})
}

// close closes a state's store. What could not be shipped is shipped at the next start, so that is no error of the
// member's.
func (b *backups) close(store *remote.Store) error {
	b.mu.Lock()
	if b.store == store {
		b.store, b.err = nil, errors.New("the state is closed")
	}
	b.mu.Unlock()
	err := store.Close()
	if err != nil {
		b.logf("warning: backup: %s", message(err))
	}
	return nil
}

// status returns how far the backup is behind; nil: there is none now, because of err.
func (b *backups) status() (*remote.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil, b.err
	}
	s := b.store.Status()
	return &s, nil
}

// backupLine is what the page says about the backup.
func (m *member) backupLine() string {
	if m.backups == nil {
		return "none"
	}
	s, err := m.backups.status()
	switch {
	case err != nil:
		return "off until the next start: " + message(err)
	case s.Away != nil:
		return fmt.Sprintf("the bucket is away for %v: %s", time.Since(s.Since).Round(time.Second), message(s.Away))
	case s.Lag.Seq > s.Lag.Shipped:
		return fmt.Sprintf("behind by %v", s.Lag.Time.Round(100*time.Millisecond))
	}
	return "has all writes"
}

// backupMetrics are the metrics of the backup.
func (m *member) backupMetrics(one func(name, kind, help string, v float64)) {
	if m.backups == nil {
		return
	}
	s, err := m.backups.status()
	one("shaled_backup_up", "gauge", "1 if the state has a backup and its bucket answers.", oneIf(err == nil && s.Away == nil && s.Err == nil))
	if err != nil {
		return
	}
	one("shaled_backup_lag_seconds", "gauge", "Age of the oldest write that the backup lacks.", s.Lag.Time.Seconds())
	one("shaled_backup_lag_bytes", "gauge", "Bytes of logs that the backup lacks.", float64(s.Lag.Bytes))
	one("shaled_backup_sent_bytes_total", "counter", "Bytes that were put into the bucket since the state was opened.", float64(s.Sent))
}

package program

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

const (
	// backupFile is the file in a member's folder that has the name of its backups.
	backupFile = "BACKUP"

	// firstPatience is how long the very first start with a backup waits to find out whether the bucket is right.
	firstPatience = 5 * time.Second

	// attachPatience is how long one attempt to begin a backup may take.
	attachPatience = 10 * time.Minute

	// mostBuckets is how many buckets a state may have, one after the other.
	mostBuckets = 20
)

// backupFlags adds the options for a backup, of which --backup alone turns it on. The others have
// defaults that fit a disk of some hundred GB.
func (c *config) backupFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.backup, "backup", "", "keep this member's state in a `BUCKET` too: a folder, or s3://HOST[:PORT]/BUCKET/PREFIX")
	f.DurationVar(&c.shipping.Retain, "backup-retain", 24*time.Hour, "how far back states can be restored")
	f.Int64Var(&c.shipping.MaxKept, "backup-keep", 10<<30, "bytes of logs that wait on this disk for a bucket that is away, and never more than the disk has left")
}

// backups keeps the state of a member in a bucket, by package remote: the log each second, tables each minute.
//
// A member's state is a store in a folder state-K of its own. When the leader sends a snapshot, the member begins
// a new one, with another K. So each has a bucket of its own, PLACE/ID-RANDOM/state-K, which one writer owns and
// nobody else claims. RANDOM is drawn for a member's folder.
//
// The member goes before its backup, which never stops it: the backup of an open state begins in the background, and is
// tried again until the bucket is there. If the bucket refuses the folder, or another program takes it over, the state
// gets another bucket, state-K-2 and so on. Logs that wait too long for it are let go.
type backups struct {
	// Constant after openBackups. name is "ID-RANDOM", as the file BACKUP has it.
	at           s3.Place
	name         string
	options      remote.Options
	logf         func(string, ...any)
	letGo, ended atomic.Int64 // how often logs were let go, and buckets given up

	now atomic.Pointer[backup] // of the state that is open; nil: none was opened yet
}

// openBackups lets the member's state be opened with a backup, if there shall be one.
//
// Package cluster opens a new store for each state, so the backup is started by
// Options.OpenStore: each store of the state has a backup that begins and ends with it.
func (m *member) openBackups(o *cluster.Options) error {
	c := &m.config
	if c.backup == "" {
		return nil
	}
	at, err := s3.ParsePlace(c.backup)
	if err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	m.backups = &backups{at: at, options: c.shipping, logf: m.logf}
	if err := m.backups.identify(c.dir, cmp.Or(c.ID, aloneName)); err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	o.OpenStore = m.backups.open
	return nil
}

// identify finds the name of a member's backups. It is drawn when a folder has its first one. Then it also tries
// whether the bucket is right, as far as that is known at once: what is wrong with it later stops no member.
//
// The name stays in the file BACKUP when the member starts again, so the same bucket goes on. A
// folder that is made later under the same id has another name: it must not write to the bucket of
// the folder before, which another process may still own.
func (b *backups) identify(dir, id string) error {
	prefix := strings.TrimLeft(strings.ToLower(id), ".") + "-" // as names of objects are
	file := filepath.Join(dir, backupFile)
	data, err := os.ReadFile(file)
	b.name = strings.TrimSpace(string(data))
	switch {
	case err == nil && strings.HasPrefix(strings.ToLower(b.name), prefix) && !strings.ContainsAny(b.name, "/\\\n"):
		return nil
	case err == nil:
		return fmt.Errorf("%s should have the name of this member's backups, which begins with %s: remove the file to begin a new backup", file, prefix)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	b.name = prefix + hex.EncodeToString(random[:])
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	at := b.at
	if at.Dir == "" {
		at = at.Below(b.name)
	}
	var wrong interface{ Permanent() bool }
	if _, err := at.Open(ctx); err != nil && (b.at.Dir != "" || errors.As(err, &wrong) && wrong.Permanent()) {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.name+"\n"), 0o666)
}

// A backup is a copy of one state in a bucket.
type backup struct {
	*backups
	// Constant. dir is the folder of the state's store, and db the store.
	dir    string
	db     *shale.DB
	fenced chan struct{} // has one when another program has taken the bucket over
	is     atomic.Pointer[attached]
}

// An attached is how a backup is at a moment.
type attached struct {
	store *remote.Store // nil: there is none
	to    s3.Place      // its bucket
	err   error         // why there is none
}

// open opens a state's store, and begins its backup in the background.
//
// Logs are held from the first moment (HoldLogs), before the backup has begun: otherwise a flush in
// between could delete a log that the bucket does not have yet.
func (b *backups) open(dir string, o *shale.Options) (*shale.DB, func() error, error) {
	plain := *o
	plain.Shipping.HoldLogs = remote.LogsToHold(o.FS, dir)
	db, err := shale.Open(dir, &plain)
	if err != nil {
		return nil, nil, err
	}
	one := &backup{backups: b, dir: dir, db: db, fenced: make(chan struct{}, 1)}
	one.is.Store(&attached{err: errors.New("it has not begun")})
	b.now.Store(one)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		one.run(ctx)
	}()
	return db, func() error {
		cancel()
		<-ended // what could not be shipped is shipped after the next start, so that is no error of the member's
		return db.Close()
	}, nil
}

// run keeps the state in a bucket until ctx is done. It tries again and again, later each time, and goes to another bucket if
// the state's own is another program's now.
func (b *backup) run(ctx context.Context) {
	said, pause := "", time.Second
	for n := 1; ctx.Err() == nil; {
		store, to, err := b.attach(ctx, n)
		b.is.Store(&attached{store, to, err})
		switch {
		case err == nil:
			b.logf("backup to %s", to)
			said, pause = "", time.Second
			select {
			case <-ctx.Done():
			case <-b.fenced:
				b.ended.Add(1)
			}
			// Close ships what is left. If the bucket is away, that is an error here, and no loss:
			// the logs are still held, and the next start ships them.
			err := store.Close()
			b.is.Store(&attached{to: to, err: errors.New("it has ended")})
			if err != nil {
				b.logf("warning: backup: %s", message(err))
			}
			continue
		// The bucket belongs to somebody else now, and waiting does not change that. The limit is
		// against a mistake in which two members take each other's buckets away again and again.
		case (errors.Is(err, remote.ErrFenced) || errors.Is(err, remote.ErrOtherStore)) && n < mostBuckets:
			b.logf("backup: %s is not used any more: %s", to, message(err))
			n++
			continue
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			b.logf("warning: backup: there is none yet, and it is tried again: %s", message(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Minute)
	}
}

// attach begins to keep the state in its n-th bucket.
func (b *backup) attach(ctx context.Context, n int) (*remote.Store, s3.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, attachPatience)
	defer cancel()
	state := filepath.Base(b.dir)
	if n > 1 {
		state = fmt.Sprintf("%s-%d", state, n)
	}
	to := b.at.Below(b.name, state)
	bucket, err := to.Open(ctx)
	if err != nil {
		return nil, to, err
	}
	o := b.options
	o.OnEvent = b.hear
	store, err := remote.Attach(ctx, b.db, b.dir, bucket, &o)
	return store, to, err
}

// hear is called for what happens to the backup.
//
// It is called by goroutines of package remote and must not wait. So a fence only wakes run.
func (b *backup) hear(e remote.Event) {
	switch e.Kind {
	case remote.EventAway, remote.EventBackground:
		b.logf("warning: backup: %v: %s; it is tried again", e.Kind, message(e.Err))
	case remote.EventBack:
		b.logf("backup: %v after %v", e.Kind, e.Duration.Round(time.Second))
	case remote.EventLetGo:
		b.letGo.Add(1)
		b.logf("warning: backup: %d bytes of logs waited for the bucket, and were let go to spare the disk (--backup-keep): no restore can go to that time", e.Bytes)
	case remote.EventFenced:
		b.logf("warning: backup: another program has taken over the bucket, or removed its newest objects; another bucket is begun: %s", message(e.Err))
		base.Wake(b.fenced)
	}
}

// status returns how far the backup is behind; nil: there is none now, because of err. kept is how many bytes of logs
// wait for the bucket.
func (b *backups) status() (s *remote.Status, kept int64, err error) {
	now := b.now.Load()
	if now == nil {
		return nil, 0, errors.New("the state is not open")
	}
	is := now.is.Load()
	kept = shale.ShippingOf(now.db).HeldLogBytes()
	if is.store == nil {
		return nil, kept, is.err
	}
	status := is.store.Status()
	return &status, kept, nil
}

// backupLine is what the page says about the backup.
func (m *member) backupLine() string {
	if m.backups == nil {
		return "none"
	}
	s, _, err := m.backups.status()
	switch {
	case err != nil:
		return "not yet: " + message(err)
	case s.Err != nil:
		return "ended: " + message(s.Err)
	case s.Away != nil:
		return fmt.Sprintf("the bucket is away for %v: %s", time.Since(s.Since).Round(time.Second), message(s.Away))
	case s.Failing != nil:
		return "fails: " + message(s.Failing)
	case s.Lag.Seq > s.Lag.Shipped:
		return fmt.Sprintf("behind by %v", s.Lag.Time.Round(100*time.Millisecond))
	}
	return "has all writes"
}

// backupMetrics are the metrics of the backup.
//
// shaled_backup_up and the limits are there also before the backup has begun, so that an alarm can
// ask for them.
func (m *member) backupMetrics(one func(name, kind, help string, v float64)) {
	if m.backups == nil {
		return
	}
	s, kept, err := m.backups.status()
	one("shaled_backup_up", "gauge", "1 if the state has a backup, its bucket answers, and nothing else keeps writes from it.",
		oneIf(err == nil && s.Away == nil && s.Failing == nil && s.Err == nil))
	one("shaled_backup_kept_bytes", "gauge", "Bytes of logs that wait for the bucket.", float64(kept))
	one("shaled_backup_keep_limit_bytes", "gauge", "How many of them may wait (--backup-keep).", float64(m.backups.options.MaxKept))
	one("shaled_backup_let_go_total", "counter", "How often more waited, and logs were let go: no restore can go to that time.", float64(m.backups.letGo.Load()))
	one("shaled_backup_ended_total", "counter", "How often another program took the bucket over, and another was begun.", float64(m.backups.ended.Load()))
	if err != nil {
		return
	}
	one("shaled_backup_step_age_seconds", "gauge", "Age of the newest step in the bucket. It grows while nothing is written.", time.Since(s.Time).Seconds())
	one("shaled_backup_lag_seconds", "gauge", "Age of the oldest write that the backup lacks.", s.Lag.Time.Seconds())
	one("shaled_backup_lag_bytes", "gauge", "Bytes of logs that the backup lacks.", float64(s.Lag.Bytes))
	one("shaled_backup_sent_bytes_total", "counter", "Bytes that were put into the bucket since the backup began.", float64(s.Sent))
}

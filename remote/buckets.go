package remote

import "context"

// Retrying returns a bucket that passes its calls to b. It repeats a call that fails with an error that may pass, after
// 50 ms, then twice as long each time up to 5 s, for 30 s in all. A call that hangs is ended by its context and
// repeated, too: after 5 s, then twice as long each time, and a second more for each 256 KiB. If b calls
// Progress, this time begins again there. The error of a call that hangs wraps os.ErrDeadlineExceeded. An error with a
// method Permanent() bool that returns true is returned at once. A Put that creates an object and whose answer was
// lost succeeds if the object has its bytes. Stores and readers wrap their buckets themselves.
func Retrying(b Bucket) Bucket { return retrying(b) }

// Probe finds out whether a bucket keeps those promises of Bucket that servers are known to break.
// It makes three objects with random names that begin with "probe/", tries the calls on them, and
// deletes them. That takes some forty requests. If the bucket is not fit for a store, the error wraps
// ErrIgnoresConditions, ErrIgnoresChecksums or ErrInconsistent. With any other error the bucket
// could not be used at all.
//
// Credentials need not have the right to delete. Without it the three objects always have the same names, and stay; then races are
// tried only the first time.
//
// It does not try large objects, or whether objects are durable: buckettest.Run does more.
func Probe(ctx context.Context, b Bucket) error { return probeBucket(ctx, b, true) }

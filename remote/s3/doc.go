// Package s3 keeps a remote.Bucket on an object store that speaks S3: that of Amazon, or a server such as
// MinIO, Ceph or versitygw.
//
//	b, err := s3.New(ctx, s3.Config{Endpoint: "s3.eu-central-1.amazonaws.com", Bucket: "backups", Prefix: "hosts"})
//
// # Guarantees
//
// An object is uploaded by one PUT, however large it is, so that every object can be created under the
// condition that it is absent (If-None-Match: *). There are no multipart uploads: some servers ignore that
// condition for them. One PUT takes 5 GiB at most, and a larger object is refused.
//
// The server gets two checksums of the object: the crc32c that the caller states, and the MD5 of the bytes
// that were read. It refuses bytes that do not have them. The crc32c is also kept in the metadata of the
// object, for servers that check a checksum but do not return it.
//
// A request is sent once. If its answer is lost, the caller gets an error, and nobody knows whether an
// object was made. Repetitions are left to package remote, which knows how to find that out: a repetition
// at this place would turn its own success into remote.ErrExists.
//
// # What the server must offer
//
// remote.Probe finds out whether it does: create-if-absent that holds in races, checksums, and strong
// consistency. If the bucket has versions or object locks, deleted objects go on to take space.
//
// # Errors
//
// Every error names the call and the object. An error that will come again until somebody changes
// something, such as a wrong key or a missing bucket, says what to change, and is a *RefusedError.
//
// # Concurrency
//
// Any number of goroutines may use a bucket, and any number of processes the same one.
package s3

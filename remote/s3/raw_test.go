package s3_test

import (
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/shaledb/shale/remote/s3"
)

// raw returns a client that knows nothing of shale.
func raw(t *testing.T, c s3.Config) *minio.Client {
	t.Helper()
	client, err := minio.New(c.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Region: c.Region})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// removeBucket removes an empty bucket.
func removeBucket(t *testing.T, c s3.Config) {
	t.Helper()
	if err := raw(t, c).RemoveBucket(t.Context(), c.Bucket); err != nil {
		t.Fatal(err)
	}
}

package s3_test

import (
	"strings"
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

// putRaw makes an object as another program would.
func putRaw(t *testing.T, c s3.Config, key, data string) {
	t.Helper()
	if _, err := raw(t, c).PutObject(t.Context(), c.Bucket, key, strings.NewReader(data), int64(len(data)), minio.PutObjectOptions{SendContentMd5: true}); err != nil {
		t.Fatal(err)
	}
}

// removeBucket removes an empty bucket.
func removeBucket(t *testing.T, c s3.Config) {
	t.Helper()
	if err := raw(t, c).RemoveBucket(t.Context(), c.Bucket); err != nil {
		t.Fatal(err)
	}
}

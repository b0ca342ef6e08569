package program

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// A security has the configurations of TLS that a member uses; nil fields: without TLS.
type security struct {
	clients *tls.Config // for clients of Redis, and for pages
	members *tls.Config // for other members, in both directions: each must show a certificate
}

// security reads the certificates.
func (c *config) security() (security, error) {
	s := &c.secrets
	if s.cert == "" {
		if s.ca != "" {
			return security{}, errors.New("--tls-ca needs --tls-cert and --tls-key: give all three, or none")
		}
		return security{}, nil
	}
	if s.ca == "" {
		return security{}, errors.New("--tls-cert needs --tls-ca, by which members know each other")
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return security{}, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
	}
	authority, err := s.authority()
	if err != nil {
		return security{}, err
	}
	clients := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.tlsClients {
		clients.ClientCAs, clients.ClientAuth = authority, tls.RequireAndVerifyClientCert
	}
	members := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: authority,
		ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	return security{clients, members}, nil
}

// authority reads the certificates of --tls-ca.
func (s *secrets) authority() (*x509.CertPool, error) {
	data, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--tls-ca %s: there is no certificate in it; it has to be in PEM form", s.ca)
	}
	return pool, nil
}

// caller returns the configuration for calls to a member's pages; nil: without TLS.
func (s *secrets) caller() (*tls.Config, error) {
	if s.ca == "" {
		if s.cert != "" {
			return nil, errors.New("--tls-cert needs --tls-ca, by which the member is known")
		}
		return nil, nil
	}
	authority, err := s.authority()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

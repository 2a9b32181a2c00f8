package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// DefaultTokenTTL is how long a join token is good for.
const DefaultTokenTTL = time.Hour

const (
	tokenVersion  = "fl1"
	tokenIDBytes  = 10
	secretBytes   = 20
	authorityHex  = 32 // 128 bits of the fingerprint
	tokenAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// Errors of a token that a caller may act on.
var (
	ErrTokenInvalid = errors.New("join token is not valid")
	ErrTokenExpired = errors.New("join token has expired")
	ErrTokenUsed    = errors.New("join token has been used already")
)

// Token is a join token as its bearer holds it. It is a secret.
type Token struct {
	ID        string
	secret    string
	Authority string // the beginning of the authority's fingerprint, in hex
}

// TokenRecord is what control keeps of a token: enough to check it, nothing to
// use it by. It is stored as JSON.
type TokenRecord struct {
	ID         string    `json:"id"`
	Role       Role      `json:"role"`
	Name       string    `json:"name,omitempty"` // empty: the bearer chooses
	SecretHash string    `json:"secretHash"`     // SHA-256, hex
	CreatedAt  time.Time `json:"createdAt"`
	ExpiresAt  time.Time `json:"expiresAt"`
	// UsedBy is the identity that joined by it, and UsedKey the SHA-256 of
	// that one's public key; both empty while the token is unused.
	UsedBy  string `json:"usedBy,omitempty"`
	UsedKey string `json:"usedKey,omitempty"`
}

// MintToken makes a token for one joining by one role, and by one name unless
// name is empty. Fingerprint is the authority's; a ttl of zero is
// DefaultTokenTTL; rand is crypto/rand's Reader outside of tests.
func MintToken(role Role, name, fingerprint string, now time.Time, ttl time.Duration, rand io.Reader) (string, TokenRecord, error) {
	if !role.Known() || role == Operator {
		return "", TokenRecord{}, fmt.Errorf("cannot mint token: role %q cannot join by token", string(role))
	}
	if name != "" {
		if err := CheckName(name); err != nil {
			return "", TokenRecord{}, fmt.Errorf("cannot mint token: %w", err)
		}
	}
	if len(fingerprint) < authorityHex {
		return "", TokenRecord{}, fmt.Errorf("cannot mint token: fingerprint %q is too short", fingerprint)
	}
	random := make([]byte, tokenIDBytes+secretBytes)
	if _, err := io.ReadFull(rand, random); err != nil {
		return "", TokenRecord{}, fmt.Errorf("cannot mint token: %w", err)
	}
	if ttl <= 0 {
		ttl = DefaultTokenTTL
	}
	t := Token{ID: encode32(random[:tokenIDBytes]), secret: encode32(random[tokenIDBytes:]), Authority: fingerprint[:authorityHex]}
	rec := TokenRecord{ID: t.ID, Role: role, Name: name, SecretHash: t.secretHash(), CreatedAt: now, ExpiresAt: now.Add(ttl)}
	return t.text(), rec, nil
}

// ParseToken reads "fl1.<id>.<secret>.<authority>". Its errors do not repeat
// the token.
func ParseToken(s string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(s), ".")
	if len(parts) != 4 || parts[0] != tokenVersion {
		return Token{}, fmt.Errorf("%w: it is not of the form %s.<id>.<secret>.<authority>", ErrTokenInvalid, tokenVersion)
	}
	t := Token{ID: parts[1], secret: parts[2], Authority: parts[3]}
	if !is32(t.ID, tokenIDBytes) || !is32(t.secret, secretBytes) || !isHex(t.Authority, authorityHex) {
		return Token{}, fmt.Errorf("%w: a part of it is missing or was changed", ErrTokenInvalid)
	}
	return t, nil
}

// String hides the secret, so that a token does not enter a log by accident.
func (t Token) String() string { return tokenVersion + "." + t.ID + ".***." + t.Authority }

// GoString hides the secret as String does.
func (t Token) GoString() string { return t.String() }

func (t Token) text() string {
	return strings.Join([]string{tokenVersion, t.ID, t.secret, t.Authority}, ".")
}

func (t Token) secretHash() string {
	sum := sha256.Sum256([]byte(t.secret))
	return hex.EncodeToString(sum[:])
}

// Matches says why the token is not the record's, or not good any more, or
// nil. Whether it has been used is [Redeem]'s question.
func (t Token) Matches(rec TokenRecord, now time.Time) error {
	same := subtle.ConstantTimeCompare([]byte(t.secretHash()), []byte(rec.SecretHash))
	if t.ID != rec.ID || same != 1 {
		return ErrTokenInvalid
	}
	if now.After(rec.ExpiresAt) {
		return fmt.Errorf("%w %s ago: create a new one", ErrTokenExpired, span(now.Sub(rec.ExpiresAt)))
	}
	return nil
}

func encode32(b []byte) string {
	return base32.NewEncoding(tokenAlphabet).WithPadding(base32.NoPadding).EncodeToString(b)
}

func is32(s string, size int) bool {
	b, err := base32.NewEncoding(tokenAlphabet).WithPadding(base32.NoPadding).DecodeString(s)
	return err == nil && len(b) == size && encode32(b) == s
}

func isHex(s string, chars int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == chars && hex.EncodeToString(b) == s
}

package grpcresolver

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/resolver"
)

// Retries say which calls may be sent again to another instance, because it does
// no harm where the first has seen them too.
type Retries struct {
	// Idempotent methods, "package.Service/Method", or "package.Service/" for all
	// of a service. None is none.
	Idempotent []string
	// Attempts of one call at most, the first included; zero means 2, and more
	// than 5 is 5.
	Attempts int
}

// WithRetries is Option, with calls of idempotent methods sent again when they
// end with code Unavailable before anything of an answer has come: to another
// instance, and within the retry budget of the resolver's service (Config.Retry). A
// call that the budget does not let go again ends with Unavailable, and says so.
//
//	grpc.NewClient("fairlead:///payments", append(grpcresolver.WithRetries(r, retries), credentials)...)
func WithRetries(r *resolver.Resolver, retries Retries, options ...resolver.Option) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithResolvers(&builder{&source{r: r, options: options, retries: retries}}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(context.WithValue(ctx, callKey{}, &call{}), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(context.WithValue(ctx, callKey{}, &call{}), desc, cc, method, opts...)
		}),
	}
}

// config is the service config, by which grpc-go sends calls again.
func (t Retries) config() string {
	type name struct {
		Service string `json:"service"`
		Method  string `json:"method,omitempty"`
	}
	type policy struct {
		MaxAttempts          int      `json:"maxAttempts"`
		InitialBackoff       string   `json:"initialBackoff"`
		MaxBackoff           string   `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []string `json:"retryableStatusCodes"`
	}
	type method struct {
		Name        []name `json:"name"`
		RetryPolicy policy `json:"retryPolicy"`
	}
	config := struct {
		LoadBalancing []map[string]struct{} `json:"loadBalancingConfig"`
		Methods       []method              `json:"methodConfig,omitempty"`
	}{LoadBalancing: []map[string]struct{}{{balancerName: {}}}}
	attempts := t.Attempts
	if attempts == 0 {
		attempts = 2
	}
	m := method{RetryPolicy: policy{min(max(attempts, 2), 5), "0.01s", "0.1s", 2, []string{"UNAVAILABLE"}}}
	for _, full := range t.Idempotent {
		s, one, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
		m.Name = append(m.Name, name{s, one})
	}
	if len(m.Name) > 0 && attempts > 1 {
		config.Methods = []method{m}
	}
	b, err := json.Marshal(config)
	if err != nil { // it holds nothing that JSON cannot say
		return `{"loadBalancingConfig":[{"` + balancerName + `":{}}]}`
	}
	return string(b)
}

type callKey struct{}

// call is one call of WithRetries, from attempt to attempt.
type call struct {
	mu    sync.Mutex
	tried []resolver.Option // without whom it failed
}

// failed notes that an attempt which somebody may have seen went wrong.
func (c *call) failed(pick *resolver.Pick) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, pick.Exclude())
}

// again is how the next attempt is picked: within the budget and elsewhere; nil
// for the first.
func (c *call) again() []resolver.Option {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tried) == 0 {
		return nil
	}
	return append([]resolver.Option{resolver.Retry()}, c.tried...)
}

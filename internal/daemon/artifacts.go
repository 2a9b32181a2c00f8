package daemon

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
)

// artifactMetrics say what the bucket holds.
type artifactMetrics struct {
	stored  prometheus.Gauge
	deleted *prometheus.CounterVec
}

func newArtifactMetrics(r *prometheus.Registry) artifactMetrics {
	m := artifactMetrics{
		stored: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "fairlead", Subsystem: "control", Name: "artifacts_bytes", Help: "Room that artifacts took after the last collection."}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "fairlead", Subsystem: "control", Name: "artifacts_collected_total",
			Help: "Artifacts deleted that nothing named: as their grace had passed (age), or before, as there were too many (size).",
		}, []string{"why"}),
	}
	r.MustRegister(m.stored, m.deleted)
	return m
}

// collectArtifacts deletes what nothing names, and says what it did, and where
// what kept revisions name takes more room than all are to have.
func (c *controlRole) collectArtifacts(ctx context.Context) {
	did, err := c.api.CollectArtifacts(ctx, httpapi.ArtifactGrace)
	c.artifacts.deleted.WithLabelValues("age").Add(float64(did.Deleted - did.Early))
	c.artifacts.deleted.WithLabelValues("size").Add(float64(did.Early))
	if err != nil {
		c.p.log.Warn("cannot collect artifacts", "error", err)
		return
	}
	c.artifacts.stored.Set(float64(did.Stored))
	if did.Deleted > 0 {
		c.p.log.Info("artifacts collected", "count", did.Deleted, "early", did.Early, "bytes", did.Freed, "left", did.Stored)
	}
	if limit := c.plane.MaxArtifacts; limit > 0 && did.Stored > limit {
		c.p.log.Warn("artifacts take more room than they are to have: kept revisions name them, or they were stored just now", "bytes", did.Stored, "limit", limit)
	}
}

import type { A2AServerOptions, AgentDescription } from '../a2a/index.ts';
import type { Agent, Logger } from '../event/types.ts';
import type { ListenGrpcOptions } from '../grpc/index.ts';
import type { JsonObject } from '../json.ts';
import type { ToolSource } from '../mcp/types.ts';
import type { BlobStore } from '../task/blob-store.ts';
import type { TaskLog } from '../task/types.ts';
import type { AuditOptions } from './auth/audit-log.ts';
import type { Auth } from './auth/guard.ts';
import type { ServeLimits } from './server-limits.ts';
import type { Retention } from './retention.ts';
import type { LoginSessionOptions } from './auth/login-session.ts';

export interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
  readonly log?: TaskLog;
  /** Who may ask. Needed for any address beyond this machine; without it there is one owner, anybody. */
  readonly auth?: Auth;
  /**
   * Owners who may read what concerns all callers: `/metrics`, `/api/replicas` and `/api/audit`. By
   * default the holder of the only secret, and otherwise no one; without `auth` everybody.
   */
  readonly operators?: readonly string[];
  /**
   * Where sign-ins and answers to questions are recorded. By default in `.duolane/audit.jsonl` beside
   * the store that serve() opens; with a `log` of yours, in the logger at level info. `false`: nowhere.
   */
  readonly audit?: AuditOptions | false;
  /** How browsers stay signed in to the page, where there is `auth`. */
  readonly session?: LoginSessionOptions;
  /**
   * Where callers reach this server, if not at its own address; it stands in the cards. With https,
   * the cookie of the page is `Secure`.
   */
  readonly publicUrl?: string;
  /** Pages of these origins may ask, too (CORS), such as `https://app.example.com`; by default none. */
  readonly origins?: readonly string[];
  readonly page?: boolean;
  /** What this server takes on at most; each has a default. */
  readonly limits?: ServeLimits;
  /**
   * How long tasks are kept after their end: 30 days by default, also in a `log` of yours. `false`
   * keeps them for ever.
   */
  readonly retention?: Retention | false;
  /** How long an agent may take to heed a cancel or a stop before it is left behind. */
  readonly graceMs?: number;
  /** How long a run may take, waits for a person not counted; then it fails with `timeout`. */
  readonly timeoutMs?: number;
  /** How many runs at once here; what is beyond waits in the log for whoever has room. 0: a front that runs nothing. */
  readonly maxRuns?: number;
  /** Every task waits its turn in the log instead of starting where it was accepted. */
  readonly queue?: boolean;
  readonly card?: Partial<AgentDescription>;
  /** A2A over gRPC too, on a port of its own. */
  readonly grpc?: GrpcOptions;
  /** How A2A is served: webhooks, limits, heartbeats, the shape of the card. */
  readonly a2a?: Partial<
    Omit<
      A2AServerOptions,
      'agent' | 'log' | 'runner' | 'url' | 'grpc' | 'description' | 'onRefusedAnswers'
    >
  >;
  /**
   * Runs as spans and metrics of OpenTelemetry, through `@opentelemetry/api`, for the SDK that the
   * process has set up. `/metrics` is there in any case.
   */
  readonly telemetry?: boolean;
  /** Gets what callers are not told, such as the text of an agent's exception. By default errors and warnings go to stderr. */
  readonly logger?: Logger;
  /** Served over MCP too, and as skills of the card. */
  readonly tools?: ToolSource;
  /** JSON Schema of the page's run form; its samples are the examples of the card's skills. */
  readonly form?: JsonObject;
  /** Handed out under `/blobs/<id>`, which is how the agent's artifacts name them. */
  readonly blobs?: BlobStore;
  /** Closed after the last run, in reverse order. */
  readonly resources?: readonly AsyncDisposable[];
}

export interface GrpcOptions extends Pick<ListenGrpcOptions, 'port' | 'tls'> {
  /** Where callers reach it, as `host:port`, if not at its own address; it stands in the cards. */
  readonly publicUrl?: string;
}

/** What `duolane serve <module>` loads; set-up is top-level await. */
export interface AgentModule {
  readonly default: Agent;
  readonly options?: ServeOptions;
}

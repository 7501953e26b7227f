import type { A2AServerOptions, AgentDescription } from '../a2a/index.ts';
import type { Agent, Logger } from '../event/types.ts';
import type { ListenGrpcOptions } from '../grpc/index.ts';
import type { JsonObject } from '../json.ts';
import type { ToolSource } from '../mcp/types.ts';
import type { BlobStore } from '../task/blob-store.ts';
import type { TaskLog } from '../task/types.ts';
import type { AuditOptions } from './auth/audit-log.ts';
import type { Auth } from './auth/guard.ts';
import type { EventOptions } from './routes/event-routes.ts';
import type { ServeLimits } from './server-limits.ts';
import type { Retention } from './retention.ts';
import type { LoginSessionOptions } from './auth/login-session.ts';

/** Options of `serve()`; every one has a default. */
export interface ServeOptions {
  /** The address to listen on; 127.0.0.1 by default. */
  readonly host?: string;
  /** The port to listen on; by default the system chooses a free one. */
  readonly port?: number;
  /** The task log; by default serve() opens `.duolane/tasks.sqlite`, and closes it at the end. */
  readonly log?: TaskLog;
  /**
   * How callers authenticate. Required for any address beyond this machine; without it all callers
   * are one owner.
   */
  readonly auth?: Auth;
  /**
   * Owners that may read what concerns all callers: `/metrics`, `/api/replicas` and `/api/audit`.
   * By default the holder of the only secret, or none if there are several; without `auth` every
   * caller.
   */
  readonly operators?: readonly string[];
  /**
   * Where sign-ins and answers to questions are recorded. By default in `.duolane/audit.jsonl`
   * beside the store that serve() opens, or with the option `log`, in the logger at level info.
   * `false` records nothing.
   */
  readonly audit?: AuditOptions | false;
  /** How browsers stay signed in to the page, if the server has `auth`. */
  readonly session?: LoginSessionOptions;
  /** The key of the signed addresses that `ctx.eventUrl` makes. */
  readonly events?: EventOptions;
  /**
   * The address at which callers reach this server, if it differs from its own, such as behind a
   * proxy. Agent cards contain it. With https, the cookie of the page is `Secure`.
   */
  readonly publicUrl?: string;
  /** Other origins whose pages may send requests (CORS), e.g. `https://app.example.com`. */
  readonly origins?: readonly string[];
  /**
   * Whether to serve the page at `/`; true by default. `{ tools: false }` serves it without the
   * view in which callers use the tool servers.
   */
  readonly page?: boolean | { readonly tools?: boolean };
  /** The limits of this server; each has a default. */
  readonly limits?: ServeLimits;
  /**
   * How long tasks are kept after their end: 30 days by default, also in the log of the option
   * `log`. `false` keeps them forever.
   */
  readonly retention?: Retention | false;
  /** How long an agent may take to end after a cancel or a drain before it is abandoned. */
  readonly graceMs?: number;
  /**
   * How long a run may take, without the time it waits for a person; then it fails with `timeout`.
   */
  readonly timeoutMs?: number;
  /**
   * Concurrent runs of this process. Further tasks wait in the log for any replica with a free
   * slot. With 0 this process accepts requests and runs nothing.
   */
  readonly maxRuns?: number;
  /**
   * Queue every task in the log, for any replica, instead of starting it in the one that accepted
   * it.
   */
  readonly queue?: boolean;
  /** Members of the agent card that replace the defaults. */
  readonly card?: Partial<AgentDescription>;
  /** Serves A2A over gRPC too, on a separate port. */
  readonly grpc?: GrpcOptions;
  /** Options of the A2A server: webhooks, limits, heartbeats, the shape of the card. */
  readonly a2a?: Partial<
    Omit<
      A2AServerOptions,
      'agent' | 'log' | 'runner' | 'url' | 'grpc' | 'description' | 'onRefusedAnswers'
    >
  >;
  /**
   * Reports runs as OpenTelemetry spans and metrics through `@opentelemetry/api`, to the SDK that
   * the process has set up. `/metrics` is served in either case.
   */
  readonly telemetry?: boolean;
  /**
   * Gets what is withheld from callers, such as the text of an agent's exception. By default errors
   * and warnings go to stderr.
   */
  readonly logger?: Logger;
  /**
   * Tools to serve over MCP: at `/mcp`, and those of further modules at `/mcp/<name>`. The agent
   * card lists them as skills, and the page shows them.
   */
  readonly tools?: ToolSource;
  /** JSON Schema of the page's run form; its `examples` are the samples of the form. */
  readonly form?: JsonObject;
  /**
   * Blobs to serve under `/blobs/<id>`, the address that the agent's artifacts contain. Agents get
   * it as `ctx.blobs`: the one of the server, or else that of their module. The caller closes it.
   */
  readonly blobs?: BlobStore;
  /** Closed in reverse order after the last run, once serve() has resolved. */
  readonly resources?: readonly AsyncDisposable[];
}

/** The gRPC listener of a server. */
export interface GrpcOptions extends Pick<ListenGrpcOptions, 'port' | 'tls'> {
  /**
   * The `host:port` at which callers reach it, if it differs from its own. Agent cards contain it.
   */
  readonly publicUrl?: string;
}

/** A module that `duolane serve <module>` loads. It may use top-level await for its set-up. */
export interface AgentModule {
  readonly default: Agent;
  readonly options?: ServeOptions;
}

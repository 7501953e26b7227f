import type { Agent } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ToolSource } from '../mcp/types.ts';
import type { TaskLog } from '../task/types.ts';

export interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
  readonly log?: TaskLog;
  readonly auth?: JsonObject;
  readonly page?: boolean;
  /** How long an agent may take to heed a cancel or a stop before it is left behind. */
  readonly graceMs?: number;
  readonly card?: JsonObject;
  /** Served over MCP too, and as skills of the card. */
  readonly tools?: ToolSource;
  /** JSON Schema of the page's run form; its samples are the examples of the card's skills. */
  readonly form?: JsonObject;
  /** Closed after the last run, in reverse order. */
  readonly resources?: readonly AsyncDisposable[];
}

/** What `duolane serve <module>` loads; set-up is top-level await. */
export interface AgentModule {
  readonly default: Agent;
  readonly options?: ServeOptions;
}

import { existsSync } from 'node:fs';
import type { SessionOptions } from '../host/index.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';

/**
 * Where the vendor's CLI reads rules and hooks of the administrator of a machine. On macOS and
 * Windows they can also be in the registry or a profile, which are not read here.
 */
const POLICY_FOLDER = process.platform === 'linux' ? '/etc/claude-code' : undefined;

/**
 * Whether the options alone allow a call of an in-process tool, as the vendor's CLI would decide
 * it: `allowedTools` names the tool or its server, and nothing else can have a say. Hooks, plugins,
 * settings of files, and rules of the administrator are known to the CLI only.
 */
export function isAllowedByOptions(
  name: string,
  options: SessionOptions,
  policyFolder: string | undefined = POLICY_FOLDER,
): boolean {
  const { allowedTools = [], disallowedTools = [], permissionMode = 'default' } = options;
  const others = [
    options.hooks,
    options.plugins,
    options.settings,
    options.managedSettings,
    options.extraArgs,
  ];
  const { server } = parseToolName(name) ?? {};
  const rules = [name, `mcp__${server}`, `mcp__${server}__*`];
  return (
    permissionMode === 'default' &&
    options.settingSources?.length === 0 &&
    others.every((other) => other === undefined) &&
    disallowedTools.length === 0 &&
    allowedTools.some((rule) => rules.includes(rule)) &&
    policyFolder !== undefined &&
    !existsSync(policyFolder)
  );
}

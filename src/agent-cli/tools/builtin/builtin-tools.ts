import type { AgentTool } from '../types.ts';
import type { Workspace } from './workspace.ts';

export const BUILTIN_NAMES = ['Read', 'Write', 'Edit', 'Glob', 'Grep', 'Bash'] as const;

/**
 * The built-in tools of `--tools`; `default` means all. Their code is loaded only if it is needed.
 */
export async function builtinTools(
  names: readonly string[],
  workspace: Workspace,
): Promise<AgentTool[]> {
  const wanted = new Set(names.includes('default') ? BUILTIN_NAMES : names);
  if (!BUILTIN_NAMES.some((name) => wanted.has(name))) return [];
  const [files, search] = await Promise.all([import('./files.ts'), import('./search.ts')]);
  const tools = [
    files.readTool(workspace),
    files.writeTool(workspace),
    files.editTool(workspace),
    search.globTool(workspace),
    search.grepTool(workspace),
    ...(wanted.has('Bash') ? [(await import('./bash.ts')).bashTool(workspace)] : []),
  ];
  return tools.filter(({ spec }) => wanted.has(spec.name));
}

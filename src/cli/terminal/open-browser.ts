import { buildEnv, spawnProcess } from '../../process/index.ts';

/** Opens an address in the browser. Returns false on a machine without one. */
export function openBrowser(url: string): boolean {
  const start = starter(url);
  if (!start) return false;
  spawnProcess({ ...start, env: buildEnv() });
  return true;
}

function starter(
  url: string,
): { readonly command: string; readonly args: readonly string[] } | undefined {
  if (process.platform === 'darwin') return { command: 'open', args: [url] };
  if (process.platform === 'win32') return { command: 'explorer.exe', args: [url] };
  if (!process.env['DISPLAY'] && !process.env['WAYLAND_DISPLAY']) return undefined;
  // In a new session, since the browser must outlive this command.
  return { command: '/bin/sh', args: ['-c', 'setsid xdg-open "$1" >/dev/null 2>&1 &', 'sh', url] };
}

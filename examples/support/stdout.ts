/** Whoever reads a program's output may leave before its end (`| head`); that is no reason to leave things behind. */
export function letReaderLeave(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

